import { randomUUID } from 'node:crypto';
import type { ClientSession } from 'mongoose';
import { GatewayError } from '../errors.ts';
import type { Envelope } from './envelope.ts';
import type { NewEvent } from './store/outbox.ts';

/** What a publisher hands in. */
export interface EventInput {
  /** One of the catalogue's types. */
  readonly type: string;
  /** The account whose webhooks hear of it. */
  readonly userId: string;
  /** The type's payload. */
  readonly data: unknown;
}

/** What a publisher gets back: the event as every receiver will see it, and the key to publish it again with. */
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
  /** The caller's session: in a transaction, the event is published exactly when the transaction commits. */
  readonly session?: ClientSession;
  /** Publishing again with the same key and content returns the first event. @default one is made and returned */
  readonly idempotencyKey?: string;
}

/** Which webhooks an event goes to. */
export interface EventSubscribers {
  readonly targets: readonly string[];
  readonly skipped: readonly string[];
  /** The latest election before they were read; absent where the read needs no proof. */
  readonly lookupElection?: string;
}

const textLimit = 256;

/** @throws GatewayError `invalid_value` unless `text` can be stored and found again unchanged */
export function checkText(param: string, text: unknown): asserts text is string {
  const storable = typeof text === 'string' && !/[\0\p{Surrogate}]/u.test(text);
  if (!storable || text.length === 0 || text.length > textLimit) {
    throw new GatewayError('invalid_value', `${param}: must be a string of 1 to ${textLimit} characters`, { param });
  }
}

/** 122 random bits, as a UUID: node draws the randomness of many of those at once. */
function newDeliveryKey(): Buffer {
  return Buffer.from(randomUUID().replaceAll('-', ''), 'hex');
}

/** The document that records an event. */
export function toNewEvent(
  envelope: Envelope,
  userId: string,
  subscribers: EventSubscribers,
  { idempotencyKey, test }: { readonly idempotencyKey: string; readonly test: boolean },
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
    idempotencyKey,
    deliveryKey: newDeliveryKey(),
  };
}
