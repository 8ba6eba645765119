import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import type { StoredDisabling, WebhookModel } from './model.ts';
import { toWebhook, type Webhook } from './webhook.ts';

/** What the health of webhooks needs of them: reads, and the write that disables one. */
export interface WebhooksForHealth {
  /** Those that exist, of any account. */
  byIds(ids: readonly string[]): Promise<Webhook[]>;
  /** The webhook if it has been active ever since `since`; otherwise `null`. */
  activeSince(id: string, since: Date): Promise<Webhook | null>;
  /** Sets it inactive on the same condition; `false` if that is no longer met. */
  disable(id: string, reason: StoredDisabling['reason'], since: Date): Promise<boolean>;
}

export function createWebhooksForHealth(webhooks: WebhookModel): WebhooksForHealth {
  const collection = durableCollection(webhooks);
  const filterFor = (id: string, since: Date) => ({
    _id: id,
    active: true,
    $or: [{ enabledAt: { $exists: false } }, { enabledAt: { $lte: since } }],
  });

  return {
    async byIds(ids) {
      const documents = await collection.find({ _id: { $in: [...ids] } }, inOneBatch).toArray();
      return documents.map(toWebhook);
    },
    async activeSince(id, since) {
      const webhook = await collection.findOne(filterFor(id, since));
      return webhook && toWebhook(webhook);
    },
    async disable(id, reason, since) {
      const { matchedCount } = await collection.updateOne(filterFor(id, since), [
        { $set: { active: false, disabled: { at: '$$NOW', reason } } },
      ]);
      return matchedCount === 1;
    },
  };
}
