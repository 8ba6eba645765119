import { GatewayError } from '../errors.ts';
import type { WebhookDocument } from './model.ts';
import {
  fromStored,
  type OptionalFields,
  type OptionalFieldsPatch,
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

/** Which of two valid secrets signs `x-service-signature`. */
export type ServiceSignature = 'new' | 'previous';

/** A webhook, with its disabling and the rotation of its secret. */
export interface WebhookDetails extends Webhook {
  /** Set if the gateway has set it inactive; `null` if not, or if its owner has set it active again. */
  readonly disabled: { readonly at: Date; readonly reason: 'gone' | 'failing' } | null;
  /** The rotation under way; `null` if there is none or its overlap has ended. */
  readonly rotation: { readonly endsAt: Date; readonly serviceSignature: ServiceSignature } | null;
}

/** How a secret is replaced. */
export interface SecretChange {
  /** 8 to 256 characters, hard to guess; sealed before it is stored. @default a generated one, returned only this once */
  readonly secret?: string;
  /** How long the replaced secret also signs, in seconds: 0 to 604,800 (7 days). @default 86_400 (1 day) */
  readonly overlapSeconds?: number;
  /** Which secret signs `x-service-signature` during the overlap. @default 'new' */
  readonly serviceSignature?: ServiceSignature;
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

/** The replaced secret, opened, and the end of its overlap. */
export interface SecretRotation {
  readonly previousSecret: string;
  /** By the database's clock. */
  readonly endsAt: Date;
  readonly serviceSignature: ServiceSignature;
}

/** A webhook with its opened secrets, for deliveries. */
export interface DeliverableWebhook extends Omit<Webhook, 'createdAt'>, WithHeaders {
  readonly secret: string;
  /** The last rotation; the attempt's start decides whether it has ended. */
  readonly rotation: SecretRotation | null;
}

/** The active and the inactive webhooks that are subscribed to an event. */
export interface Subscribers {
  readonly targets: string[];
  readonly skipped: string[];
}

export function toWebhook(document: Omit<WebhookDocument, 'slot'>): Webhook {
  const { _id, userId, url, events, active, createdAt } = document;
  return { id: _id, userId, url, events, active, createdAt, ...fromStored(document) };
}

export function toDetails({ rotation, ...webhook }: WebhookDocument): WebhookDetails {
  const { endsAt, serviceSignature } = rotation ?? {};
  return {
    ...toWebhook(webhook),
    disabled: webhook.disabled ?? null,
    rotation: endsAt && serviceSignature ? { endsAt, serviceSignature } : null,
  };
}

/** The same error for an unknown id, a malformed one and one of another account. */
export function webhookNotFound(id: string): GatewayError {
  return new GatewayError(
    'webhook_not_found',
    `No webhook ${id} is in this account; GET /v1/webhooks lists those that are`,
    { param: 'id' },
  );
}
