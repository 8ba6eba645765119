import type { ClientSession } from 'mongoose';
import { checkUserId, isId } from '../ids.ts';
import type { WebhookDocument, WebhookModel } from './model.ts';
import type { Secrets } from './secrets/secrets.ts';
import { type AddressedEvent, createSubscriberLookup } from './subscriber-lookup.ts';
import { type DeliverableWebhook, type Subscribers, toWebhook } from './webhook.ts';

/** The reads of webhooks that publications and deliveries need. */
export interface WebhooksForDeliveries {
  /** The webhooks that the event goes to, in one look-up; in a transaction if a session is given. */
  subscribers(event: AddressedEvent, session?: ClientSession): Promise<Subscribers>;
  /** The same by a confirmed read. @throws TimeoutError if the database does not confirm it */
  confirmedSubscribers(event: AddressedEvent): Promise<Subscribers>;
  /**
   * A webhook of any account with its opened secrets; `null` if it is confirmed to be gone. Only for deliveries.
   * @param suffices unless it is true of the webhook that a usual read finds, a confirmed read follows
   * @throws GatewayError `secret_unreadable`
   */
  forDelivery(id: string, suffices?: (webhook: DeliverableWebhook) => boolean): Promise<DeliverableWebhook | null>;
  /** The URL of a webhook of any account, also where its secret cannot be opened; `null` if it is gone. */
  urlOf(id: string): Promise<string | null>;
}

export interface WebhooksForDeliveriesDeps {
  readonly webhooks: WebhookModel;
  readonly secrets: Secrets;
  /** The known event types. */
  readonly catalogueTypes: ReadonlySet<string>;
}

export function createWebhooksForDeliveries(deps: WebhooksForDeliveriesDeps): WebhooksForDeliveries {
  const { secrets, catalogueTypes } = deps;
  const lookup = createSubscriberLookup(deps.webhooks);

  function opened(document: WebhookDocument): DeliverableWebhook {
    const { createdAt: _, ...webhook } = toWebhook(document);
    return { ...webhook, ...secrets.open(document) };
  }

  return {
    async subscribers(event, session) {
      checkUserId(event.userId);
      if (!catalogueTypes.has(event.type)) return { targets: [], skipped: [] };
      return lookup.subscribers(event, session);
    },
    confirmedSubscribers: lookup.confirmedSubscribers,
    async forDelivery(id, suffices = () => true) {
      const document = isId('wh', id) ? await lookup.byId(id) : null;
      if (!document) return null;
      const webhook = opened(document);
      if (suffices(webhook)) return webhook;
      const confirmed = await lookup.confirmedById(id);
      return confirmed && opened(confirmed);
    },
    urlOf: async (id) => (isId('wh', id) ? ((await lookup.byId(id))?.url ?? null) : null),
  };
}
