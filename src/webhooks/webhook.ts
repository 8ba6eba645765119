import { GatewayError } from '../errors.ts';
import type { WebhookDocument } from './model.ts';

/** A registered webhook, without its secret. */
export interface Webhook {
  /** `wh_…` */
  readonly id: string;
  readonly userId: string;
  readonly url: string;
  /** The types it is subscribed to. */
  readonly events: readonly string[];
  /** Whether events are delivered to it. */
  readonly active: boolean;
  readonly createdAt: Date;
}

/** Which of two secrets `x-service-signature` is made with while both are good. */
export type ServiceSignature = 'new' | 'previous';

/** A webhook, whether it was disabled, and how far its secret's rotation has come. */
export interface WebhookDetails extends Webhook {
  /** That the gateway has set it inactive; `null` when it has not, or its owner has set it active again. */
  readonly disabled: { readonly at: Date; readonly reason: 'gone' | 'failing' } | null;
  /** The rotation under way; `null` when there is none, or its overlap has ended. */
  readonly rotation: { readonly endsAt: Date; readonly serviceSignature: ServiceSignature } | null;
}

/** How a secret is replaced. */
export interface SecretChange {
  /** 8 to 256 characters, hard to guess; sealed before it is stored. @default one is made, and returned this once */
  readonly secret?: string;
  /** How long the secret that is replaced signs too, in seconds: 0 to 604,800 (7 days). @default 86_400 (1 day) */
  readonly overlapSeconds?: number;
  /** Which secret `x-service-signature` is made with during the overlap. @default 'new' */
  readonly serviceSignature?: ServiceSignature;
}

/** What a customer says to register a webhook. */
export interface NewWebhook {
  readonly url: string;
  readonly events: readonly string[];
  /** 8 to 256 characters, hard to guess; sealed before it is stored. @default one is made, and returned this once */
  readonly secret?: string;
}

/** What making a webhook or replacing its secret returns: the secret too, where the gateway made it. It is never shown again. */
export interface MadeSecret {
  readonly secret?: string;
}

/** What can be changed: at least one of them. */
export interface WebhookPatch {
  readonly events?: readonly string[];
  readonly active?: boolean;
}

/** Which page of a list. */
export interface Page {
  /** 1 to 100. @default 100 */
  readonly limit?: number;
  /** The id that the page follows; it need not exist any more. */
  readonly after?: string;
}

/** The secret that was replaced, open, and until when it is good. */
export interface SecretRotation {
  readonly previousSecret: string;
  /** By the database's clock. */
  readonly endsAt: Date;
  readonly serviceSignature: ServiceSignature;
}

/** A webhook as a delivery needs it: its secrets open. */
export interface DeliverableWebhook extends Omit<Webhook, 'createdAt'> {
  readonly secret: string;
  /** The last rotation, ended or not: that is for the delivery's own clock to say. */
  readonly rotation: SecretRotation | null;
}

/** The webhooks that hear of an event, and those that would if they were active. */
export interface Subscribers {
  readonly targets: string[];
  readonly skipped: string[];
}

export function toWebhook({ _id, userId, url, events, active, createdAt }: WebhookDocument): Webhook {
  return { id: _id, userId, url, events, active, createdAt };
}

export function toDetails({ rotation, ...webhook }: WebhookDocument): WebhookDetails {
  const { endsAt, serviceSignature } = rotation ?? {};
  return {
    ...toWebhook(webhook),
    disabled: webhook.disabled ?? null,
    rotation: endsAt && serviceSignature ? { endsAt, serviceSignature } : null,
  };
}

/** The same answer for an unknown id, a malformed one and another account's. */
export function webhookNotFound(id: string): GatewayError {
  return new GatewayError('webhook_not_found', `No webhook ${id} in this account`, { param: 'id' });
}
