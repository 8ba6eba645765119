import { randomUUID } from 'node:crypto';
import type { ClientSession } from 'mongoose';
import type { webhooks } from '../api.d.ts';
import type { Envelope } from './envelope.ts';
import type { EventSubscribers, NewEvent } from './store/stored-event.ts';

/** The gateway's own event types, and the data of each. */
type OwnData = {
  readonly [Type in keyof webhooks]: webhooks[Type]['post']['requestBody']['content']['application/json']['data'];
};

interface EventOf<Type extends string, Data> {
  /** One of the catalogue's types. */
  readonly type: Type;
  /** The account whose webhooks receive it. */
  readonly userId: string;
  /** The type's payload. */
  readonly data: Data;
}

/**
 * An event to publish.
 * @typeParam Custom the names of the option `eventTypes`. @default any name, with any data
 */
export type EventInput<Custom extends string = string> =
  | { [Type in keyof OwnData]: EventOf<Type, OwnData[Type]> }[keyof OwnData]
  | EventOf<Custom, unknown>;

/** A published event: the envelope that every receiver gets, and the key with which it can be published again. */
export interface PublishedEvent {
  readonly id: string;
  readonly type: string;
  /** ISO 8601, UTC. */
  readonly created: string;
  readonly data: unknown;
  readonly idempotencyKey: string;
}

/** How an event is published. */
export interface PublishOptions {
  /** Your session. In a transaction, the event is published if, and only if, the transaction commits. */
  readonly session?: ClientSession;
  /** Publishing again with the same key and content returns the first event. @default a generated key, which is returned */
  readonly idempotencyKey?: string;
}

/** 122 random bits, from a UUID, because node draws the randomness of many UUIDs at once. */
function newDeliveryKey(): Buffer {
  return Buffer.from(randomUUID().replaceAll('-', ''), 'hex');
}

/** The document of an event. */
export function toNewEvent(
  envelope: Envelope,
  userId: string,
  subscribers: EventSubscribers,
  {
    idempotencyKey,
    test,
    traceparent,
  }: { readonly idempotencyKey: string; readonly test: boolean; readonly traceparent: string | undefined },
): NewEvent {
  const { id, type, created, body, contentHash } = envelope;
  return {
    _id: id,
    userId,
    type,
    created,
    body,
    contentHash,
    targets: [...subscribers.targets],
    skipped: [...subscribers.skipped],
    ...(subscribers.lookupElection !== undefined && { lookupElection: subscribers.lookupElection }),
    test,
    ...(traceparent !== undefined && { traceparent }),
    idempotencyKey,
    deliveryKey: newDeliveryKey(),
  };
}
