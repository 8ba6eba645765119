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

/** What a customer says to register a webhook. */
export interface NewWebhook {
  readonly url: string;
  readonly events: readonly string[];
  /** 8 to 256 characters; sealed before it is stored, and never shown again. */
  readonly secret: string;
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

/** A webhook as a delivery needs it: its secret open. */
export interface DeliverableWebhook extends Omit<Webhook, 'createdAt'> {
  readonly secret: string;
}

/** The webhooks that hear of an event, and those that would if they were active. */
export interface Subscribers {
  readonly targets: string[];
  readonly skipped: string[];
}

export function toWebhook({ _id, userId, url, events, active, createdAt }: WebhookDocument): Webhook {
  return { id: _id, userId, url, events, active, createdAt };
}

/** The same answer for an unknown id, a malformed one and another account's. */
export function webhookNotFound(id: string): GatewayError {
  return new GatewayError('webhook_not_found', `No webhook ${id} in this account`, { param: 'id' });
}
