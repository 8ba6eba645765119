import { GatewayError, notFound, refuse } from '../errors.ts';
import type { StoredDisabling, StoredRotation, WebhookDocument } from './model.ts';
import {
  type OptionalFields,
  type OptionalFieldsPatch,
  toStored,
  type WithHeaderNames,
  type WithHeaders,
} from './optional-fields.ts';

/** A registered webhook, without its secret. */
export interface Webhook extends OptionalFields, WithHeaderNames {
  /** `wh_…` */
  readonly id: string;
  readonly userId: string;
  readonly url: string;
  /** The subscribed event types. */
  readonly events: readonly string[];
  /** Whether events are delivered to it. */
  readonly active: boolean;
  readonly createdAt: Date;
}

/** A webhook, with its disabling and the rotation of its secret. */
export interface WebhookDetails extends Webhook {
  /** Set if the gateway has set it inactive; `null` if not, or if its owner has set it active again. */
  readonly disabled: Readonly<StoredDisabling> | null;
  /** The rotation under way; `null` if there is none or its overlap has ended. */
  readonly rotation: Readonly<Omit<StoredRotation, 'previousSecret'>> | null;
}

/** How a secret is replaced. */
export interface SecretChange {
  /** 8 to 256 characters, hard to guess; sealed before it is stored. @default a generated one, returned only this once */
  readonly secret?: string;
  /** How long the replaced secret also signs, in seconds: 0 to 604,800 (7 days). @default 86_400 (1 day) */
  readonly overlapSeconds?: number;
  /** Which secret signs `x-service-signature` during the overlap. @default 'new' */
  readonly serviceSignature?: StoredRotation['serviceSignature'];
}

/** The input of a registration. */
export interface NewWebhook extends OptionalFields, WithHeaders {
  readonly url: string;
  readonly events: readonly string[];
  /** 8 to 256 characters, hard to guess; sealed before it is stored. @default a generated one, returned only this once */
  readonly secret?: string;
}

/** The secret, if the gateway generated it. It is never shown again. */
export interface MadeSecret {
  readonly secret?: string;
}

/** The fields that can be changed; at least one is required. What is left out stays as it is. */
export interface WebhookPatch extends OptionalFieldsPatch {
  readonly events?: readonly string[];
  readonly active?: boolean;
}

/** A webhook with its opened secrets, for deliveries. */
export interface DeliveryTarget extends Pick<Webhook, 'url' | 'events' | 'active' | 'rateLimit'>, WithHeaders {
  readonly secret: string;
  /** The last rotation, with the replaced secret; the attempt's start decides whether it has ended. */
  readonly rotation?: Readonly<StoredRotation> | null;
}

/**
 * Reads a webhook of any account; `null` if it is confirmed to be gone. Only for deliveries.
 * @param suffices unless it is true of the webhook that a usual read finds, a confirmed read follows
 * @throws GatewayError `secret_unreadable`
 */
export type TargetLookUp = (
  webhookId: string,
  suffices?: (target: DeliveryTarget) => boolean,
) => Promise<DeliveryTarget | null>;

/** The secrets that sign at one moment. */
export interface SecretsInUse {
  /** Signs `x-service-signature`, which has room for one signature. */
  readonly service: string;
  /** Sign `webhook-signature`, newest first. */
  readonly standard: readonly string[];
}

/**
 * The secrets that sign at `now`: both during the overlap of a rotation, afterwards only the new one.
 * @param now by the database's clock, as the end of the overlap is
 */
export function secretsInUse(
  { secret, rotation }: Pick<DeliveryTarget, 'secret' | 'rotation'>,
  now: Date,
): SecretsInUse {
  if (!rotation || now >= rotation.endsAt) return { service: secret, standard: [secret] };
  const { previousSecret, serviceSignature } = rotation;
  return { service: serviceSignature === 'previous' ? previousSecret : secret, standard: [secret, previousSecret] };
}

/** What decides which webhooks an event goes to. */
export interface AddressedEvent {
  readonly userId: string;
  readonly type: string;
  /** The envelope: filters judge the event as its receivers get it. */
  readonly body: Buffer;
}

/** The active and the inactive webhooks that are subscribed to an event. */
export interface Subscribers {
  readonly targets: string[];
  readonly skipped: string[];
}

/** Webhooks that one look-up has read whole. */
export interface ReadTargets {
  /** The webhook as it was then; `undefined` if it was not read whole, or its secret cannot be opened. */
  readonly target: (webhookId: string) => DeliveryTarget | undefined;
  /** When the look-up began, by `performance.now()`: later changes of the webhooks may be missing. */
  readonly readAt: number;
}

/** The subscribers of an event, with the webhooks that the look-up has read whole. */
export type ReadSubscribers = Subscribers & ReadTargets;

export function toWebhook(document: Omit<WebhookDocument, 'slot'>): Webhook {
  const { _id, userId, url, events, active, createdAt } = document;
  const { description, metadata, filters, rateLimit, headerNames } = document;
  return {
    id: _id,
    userId,
    url,
    events,
    active,
    createdAt,
    ...(description !== undefined && { description }),
    ...(metadata !== undefined && { metadata: JSON.parse(metadata) }),
    ...(filters !== undefined && { filters: JSON.parse(filters) }),
    ...(rateLimit !== undefined && { rateLimit }),
    ...(headerNames !== undefined && { headerNames }),
  };
}

export function toDetails({ rotation, ...webhook }: WebhookDocument): WebhookDetails {
  return {
    ...toWebhook(webhook),
    disabled: webhook.disabled ?? null,
    rotation: rotation ? { endsAt: rotation.endsAt, serviceSignature: rotation.serviceSignature } : null,
  };
}

export const webhookNotFound = (id: string) => notFound('webhook_not_found', 'webhook', id, 'webhooks');

/**
 * Checks that a webhook may subscribe to these types.
 * @throws GatewayError `invalid_type`, `invalid_value` or `unknown_event_type`, naming the entry
 */
export function checkEvents(events: readonly string[], known: ReadonlySet<string>): void {
  if (!Array.isArray(events)) refuse('invalid_type', 'events', 'must be an array of event types');
  if (events.length === 0) refuse('invalid_value', 'events', 'must name at least one event type');
  events.forEach((type, i) => {
    const param = `events[${i}]`;
    if (!known.has(type)) refuse('unknown_event_type', param, `must be one of ${[...known].join(', ')}`);
    if (events.indexOf(type) < i) refuse('invalid_value', param, `'${type}' is named twice`);
  });
}

const changeable = ['events', 'active', 'description', 'metadata', 'filters', 'rate_limit', 'headers'] as const;

/**
 * The fields of a patch as they are stored, without any unknown ones; `null` for one that is removed.
 * @throws GatewayError `missing_required_parameter` for an empty one, or what {@link checkEvents} and {@link toStored} throw
 */
export function toChanges({ events, active, ...patch }: WebhookPatch, known: ReadonlySet<string>) {
  const optional = toStored(patch);
  const isEmpty = Object.keys(optional).length === 0 && patch.headers === undefined;
  if (events === undefined && active === undefined && isEmpty) {
    const message = `At least one of ${changeable.join(', ')} is required`;
    throw new GatewayError('missing_required_parameter', message);
  }
  if (events !== undefined) checkEvents(events, known);
  if (active !== undefined && typeof active !== 'boolean') refuse('invalid_type', 'active', 'must be true or false');
  return { ...(events && { events: [...events] }), ...(active !== undefined && { active }), ...optional };
}
