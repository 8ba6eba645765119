import { GatewayError } from '../errors.ts';
import { checkUserId, isId, newId } from '../ids.ts';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import { type ConfirmedRead, confirm, confirmAbsent } from '../mongo/confirmed-reads.ts';
import { storeInFreeSlot } from '../mongo/free-slot.ts';
import { type Page, readAccountPage } from '../mongo/list-page.ts';
import {
  changeByPipeline,
  type StoredDisabling,
  type WebhookDocument,
  type WebhookModel,
  type Webhooks,
} from './model.ts';
import { toStored, toStoredHeaders } from './optional-fields.ts';
import { chooseSecret, createRotateSecret, liveRotation } from './rotation.ts';
import { createReseal, createSecrets, missingKeyIds, requireEveryKey, type Sealer } from './secrets.ts';
import { createWebhooksForDeliveries } from './subscribers.ts';
import { checkWebhookUrl, type UrlRules } from './url.ts';
import {
  checkEvents,
  type MadeSecret,
  type NewWebhook,
  toChanges,
  toDetails,
  toWebhook,
  type Webhook,
  type WebhookDetails,
  type WebhookPatch,
  webhookNotFound,
} from './webhook.ts';

/** Values for a pipeline, where a text may look like an expression; `null` removes a field. */
function literals(values: object): Record<string, unknown> {
  const entries = Object.entries(values);
  return Object.fromEntries(entries.map(([name, value]) => [name, value === null ? '$$REMOVE' : { $literal: value }]));
}

/** The fields that have a value. */
function present<T extends object>(fields: T) {
  const entries = Object.entries(fields).filter(([, value]) => value !== null);
  return Object.fromEntries(entries) as { [Name in keyof T]: Exclude<T[Name], null> };
}

export interface WebhookServiceDeps {
  /** The most that one account may have. */
  readonly maxWebhooks: number;
  readonly webhooks: WebhookModel;
  readonly sealer: Sealer;
  /** The known event types. */
  readonly catalogueTypes: ReadonlySet<string>;
  readonly rules: UrlRules;
}

/** An account's webhooks. A webhook of another account counts as unknown. */
export type WebhookService = ReturnType<typeof createWebhookService>;

/** What the health of webhooks needs of them: reads, and the write that disables one. */
function createWebhooksForHealth(webhooks: WebhookModel) {
  const collection = durableCollection(webhooks);
  const filterFor = (id: string, since: Date) => ({
    _id: id,
    active: true,
    $or: [{ enabledAt: { $exists: false } }, { enabledAt: { $lte: since } }],
  });

  return {
    /** Those that exist, of any account. */
    async byIds(ids: readonly string[]): Promise<Webhook[]> {
      const documents = await collection.find({ _id: { $in: [...ids] } }, inOneBatch).toArray();
      return documents.map(toWebhook);
    },
    /** The webhook if it has been active ever since `since`; otherwise `null`. */
    async activeSince(id: string, since: Date): Promise<Webhook | null> {
      const webhook = await collection.findOne(filterFor(id, since));
      return webhook && toWebhook(webhook);
    },
    /** Sets it inactive on the same condition; `false` if that is no longer met. */
    async disable(id: string, reason: StoredDisabling['reason'], since: Date): Promise<boolean> {
      const set = { active: false, disabled: { at: '$$NOW', reason } };
      const { matchedCount } = await collection.updateOne(filterFor(id, since), [{ $set: set }]);
      return matchedCount === 1;
    },
  };
}

/** The webhooks of accounts, as they are read. */
function createReads(collection: Webhooks) {
  /**
   * A webhook by a confirmed read, unless `suffices` is true of the one that a usual read finds.
   * @throws GatewayError `webhook_not_found`
   */
  async function getConfirmed(userId: string, id: string, suffices: (webhook: WebhookDetails) => boolean) {
    checkUserId(userId);
    if (!isId('wh', id)) throw webhookNotFound(id);
    const pipeline = [{ $match: { _id: id, userId } }, { $set: { rotation: liveRotation } }];
    const read = async (options: Partial<ConfirmedRead> = {}) => {
      const [found] = await collection.aggregate<WebhookDocument>(pipeline, options).toArray();
      return found && toDetails(found);
    };
    const found = await read();
    if (found && suffices(found)) return found;
    const confirmed = await confirm(read);
    if (!confirmed) throw webhookNotFound(id);
    return confirmed;
  }

  return {
    /** @throws GatewayError `webhook_not_found` */
    get: (userId: string, id: string) => getConfirmed(userId, id, () => true),
    getConfirmed,

    /**
     * Oldest first.
     * @throws GatewayError `invalid_value`
     */
    async list(userId: string, page: Page = {}): Promise<{ readonly webhooks: Webhook[]; readonly hasMore: boolean }> {
      const { documents, hasMore } = await readAccountPage(collection, 'wh', userId, page);
      return { webhooks: documents.map(toWebhook), hasMore };
    },
  };
}

/** Inserts a webhook, if its account has fewer than it may have. @throws GatewayError `webhook_limit_reached` */
function insert(collection: Webhooks, webhook: Omit<WebhookDocument, 'slot'>, count: number): Promise<void> {
  return storeInFreeSlot({
    count,
    async taken() {
      const { userId } = webhook;
      const present = await collection.find({ userId }, { projection: { _id: 0, slot: 1 }, ...inOneBatch }).toArray();
      return new Set(present.map(({ slot }) => slot));
    },
    store: (slot) => collection.insertOne({ ...webhook, slot }),
    full: () => {
      const message = `This account already has the maximum of ${count} webhooks; delete one first`;
      return new GatewayError('webhook_limit_reached', message);
    },
  });
}

/** What accounts do to their webhooks. @param onChanged called with the account when a change is made */
function createChanges(
  { webhooks, catalogueTypes, rules, maxWebhooks }: WebhookServiceDeps,
  secrets: ReturnType<typeof createSecrets>,
  onChanged: (userId: string) => void,
) {
  const collection = durableCollection(webhooks);

  /** @throws GatewayError `webhook_not_found`, once that is confirmed */
  async function notFound(userId: string, id: string): Promise<never> {
    await confirmAbsent(collection, { _id: id, userId });
    throw webhookNotFound(id);
  }

  return {
    /**
     * @throws GatewayError `invalid_type`, `invalid_value`, `url_not_allowed`, `unknown_event_type`, or
     *   `webhook_limit_reached`
     */
    async create(userId: string, { url, events, ...input }: NewWebhook): Promise<Webhook & MadeSecret> {
      checkUserId(userId);
      checkWebhookUrl(url, rules);
      checkEvents(events, catalogueTypes);
      const optional = present(toStored(input));
      const { secret, isGenerated } = chooseSecret(input.secret);
      const createdAt = new Date();
      const _id = newId('wh', createdAt.getTime());
      const headers = present(toStoredHeaders(input.headers, (json) => secrets.seal(_id, 'headers', json)));
      const sealed = { secret: secrets.seal(_id, 'secret', secret), sealedWith: [secrets.newestKeyId], ...headers };
      const webhook = { _id, userId, url, events: [...events], active: true, createdAt, ...optional, ...sealed };
      await insert(collection, webhook, maxWebhooks);
      onChanged(userId);
      return { ...toWebhook(webhook), ...(isGenerated && { secret }) };
    },

    /**
     * Changes the fields in the patch; an equal value changes nothing.
     * @throws GatewayError `webhook_not_found`, `missing_required_parameter`, `invalid_type`, `invalid_value`, `unknown_event_type`
     */
    async update(userId: string, id: string, patch: WebhookPatch) {
      checkUserId(userId);
      const changes = toChanges(patch, catalogueTypes);
      if (!isId('wh', id)) throw webhookNotFound(id);
      const headers = toStoredHeaders(patch.headers, (json) => secrets.seal(id, 'headers', json));
      // a webhook that is set active again starts afresh
      const afresh = { disabled: '$$REMOVE', enabledAt: { $cond: ['$active', '$enabledAt', '$$NOW'] } };
      const set = { ...literals({ ...changes, ...headers }), ...(changes.active && afresh) };
      const updated = await changeByPipeline(webhooks, { _id: id, userId }, set);
      onChanged(userId);
      return toWebhook(updated ?? (await notFound(userId, id)));
    },

    /** @throws GatewayError `webhook_not_found` */
    async remove(userId: string, id: string) {
      checkUserId(userId);
      if (!isId('wh', id)) throw webhookNotFound(id);
      const { deletedCount } = await collection.deleteOne({ _id: id, userId });
      onChanged(userId);
      if (deletedCount === 0) await notFound(userId, id);
    },
  };
}

/** Everything about webhooks, except their deliveries. */
export function createWebhookService(deps: WebhookServiceDeps) {
  const { webhooks, sealer, catalogueTypes } = deps;
  const secrets = createSecrets(webhooks, sealer);
  const { forgetSubscribers, ...forDeliveries } = createWebhooksForDeliveries(webhooks, secrets, catalogueTypes);

  return {
    /**
     * Checks that every stored secret has its key.
     * @throws GatewayError `invalid_options`, naming the ids of the keys that are missing
     */
    requireEveryKey: () => requireEveryKey(webhooks, sealer),
    /** The ids of keys that sealed stored secrets, and that are not there. */
    missingKeys: () => missingKeyIds(webhooks, sealer),
    ...createReads(durableCollection(webhooks)),
    ...createChanges(deps, secrets, forgetSubscribers),

    /**
     * Replaces the secret, by a new random one if none is given. During the overlap the old one also signs. A rotation during
     * another one ends the earlier one. Sending the same new secret again changes only the end of the overlap, so a request may
     * be repeated.
     * @throws GatewayError `webhook_not_found`, `invalid_type`, `invalid_value`, `secret_unreadable`
     */
    rotateSecret: createRotateSecret(webhooks, secrets),

    ...forDeliveries,
    ...createWebhooksForHealth(webhooks),
    /**
     * Seals every secret of every account with the newest key, in batches; then the older keys can be removed. May run beside
     * gateways, and repeatedly.
     */
    reseal: createReseal(webhooks, secrets),
  };
}
