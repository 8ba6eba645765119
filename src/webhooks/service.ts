import type { ClientSession } from 'mongoose';
import { checkUserId, isId, newId } from '../ids.ts';
import { checkEvents, checkPage, checkSecret, pageLimit, toChanges } from './fields.ts';
import { idsAfter, type WebhookModel } from './model.ts';
import type { Sealer } from './sealing.ts';
import { insertIntoFreeSlot } from './slots.ts';
import { checkWebhookUrl, type UrlRules } from './url.ts';
import {
  type DeliverableWebhook,
  type NewWebhook,
  type Page,
  type Subscribers,
  toWebhook,
  type Webhook,
  type WebhookPatch,
  webhookNotFound,
} from './webhook.ts';

export interface WebhookServiceDeps {
  readonly webhooks: WebhookModel;
  readonly sealer: Sealer;
  /** The event types there are. */
  readonly catalogueTypes: ReadonlySet<string>;
  readonly rules: UrlRules;
  /** Webhooks one account may have. */
  readonly maxWebhooks: number;
}

/** An account's webhooks. Another account's webhook is as unknown as one that does not exist. */
export interface WebhookService {
  /**
   * @throws GatewayError `invalid_type`, `invalid_value`, `url_not_allowed`, `unknown_event_type`, or
   *   `webhook_limit_reached`
   */
  create(userId: string, webhook: NewWebhook): Promise<Webhook>;
  /**
   * Oldest first.
   * @throws GatewayError `invalid_value`
   */
  list(userId: string, page?: Page): Promise<{ readonly webhooks: Webhook[]; readonly hasMore: boolean }>;
  /** @throws GatewayError `webhook_not_found` */
  get(userId: string, id: string): Promise<Webhook>;
  /**
   * Changes what the patch names; a value that is there already changes nothing.
   * @throws GatewayError `webhook_not_found`, `missing_required_parameter`, `invalid_type`, `invalid_value`, `unknown_event_type`
   */
  update(userId: string, id: string, patch: WebhookPatch): Promise<Webhook>;
  /** @throws GatewayError `webhook_not_found` */
  remove(userId: string, id: string): Promise<void>;
  /** Who hears of an event of this type, in one look-up; inside a transaction if a session is given. */
  subscribers(userId: string, type: string, session?: ClientSession): Promise<Subscribers>;
  /**
   * A webhook of any account with its secret open, or `null`. For deliveries alone.
   * @throws GatewayError `secret_unreadable`
   */
  forDelivery(id: string): Promise<DeliverableWebhook | null>;
}

/** Everything the package does with webhooks, save calling them. */
export function createWebhookService(deps: WebhookServiceDeps): WebhookService {
  const { webhooks, sealer, catalogueTypes, rules, maxWebhooks } = deps;
  const placeOfSecret = (id: string) => `${webhooks.collection.collectionName}:${id}:secret`;

  return {
    async create(userId, { url, events, secret }) {
      checkUserId(userId);
      checkWebhookUrl(url, rules);
      checkEvents(events, catalogueTypes);
      checkSecret(secret);
      const createdAt = new Date();
      const _id = newId('wh', createdAt.getTime());
      const webhook = { _id, userId, url, events: [...events], active: true, createdAt };
      await insertIntoFreeSlot(webhooks, maxWebhooks, { ...webhook, secret: sealer.seal(secret, placeOfSecret(_id)) });
      return { id: _id, userId, url, events: webhook.events, active: true, createdAt };
    },

    async list(userId, { limit = pageLimit, after } = {}) {
      checkUserId(userId);
      checkPage(limit, after);
      const filter = after === undefined ? { userId } : { userId, _id: idsAfter(after) };
      const found = await webhooks
        .find(filter)
        .sort({ _id: 1 })
        .limit(limit + 1)
        .lean();
      return { webhooks: found.slice(0, limit).map(toWebhook), hasMore: found.length > limit };
    },

    async get(userId, id) {
      checkUserId(userId);
      const found = isId('wh', id) ? await webhooks.findOne({ _id: id, userId }).lean() : null;
      if (!found) throw webhookNotFound(id);
      return toWebhook(found);
    },

    async update(userId, id, patch) {
      checkUserId(userId);
      const changes = toChanges(patch, catalogueTypes);
      if (!isId('wh', id)) throw webhookNotFound(id);
      const updated = await webhooks
        .findOneAndUpdate({ _id: id, userId }, { $set: changes }, { returnDocument: 'after' })
        .lean();
      if (!updated) throw webhookNotFound(id);
      return toWebhook(updated);
    },

    async remove(userId, id) {
      checkUserId(userId);
      if (!isId('wh', id)) throw webhookNotFound(id);
      const { deletedCount } = await webhooks.deleteOne({ _id: id, userId });
      if (deletedCount === 0) throw webhookNotFound(id);
    },

    async subscribers(userId, type, session) {
      checkUserId(userId);
      if (!catalogueTypes.has(type)) return { targets: [], skipped: [] };
      const found = await webhooks
        .find({ userId, events: type }, { _id: 1, active: 1 }, session ? { session } : {})
        .sort({ _id: 1 })
        .lean();
      const idsOf = (state: boolean) => found.filter(({ active }) => active === state).map(({ _id }) => _id);
      return { targets: idsOf(true), skipped: idsOf(false) };
    },

    async forDelivery(id) {
      const found = isId('wh', id) ? await webhooks.findById(id).lean() : null;
      if (!found) return null;
      const { createdAt: _, ...webhook } = toWebhook(found);
      return { ...webhook, secret: sealer.open(found.secret, placeOfSecret(id)) };
    },
  };
}
