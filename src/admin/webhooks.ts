import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import { healthState } from '../webhooks/health/health-state.ts';
import type { HealthDocument, HealthModel } from '../webhooks/health/model.ts';
import type { WebhookDocument, WebhookModel } from '../webhooks/model.ts';
import { liveRotation } from '../webhooks/secrets/rotation.ts';
import { toDetails } from '../webhooks/webhook.ts';
import type { AccountWebhook } from './accounts/account.ts';

export interface ReadWebhooksDeps {
  readonly webhooks: WebhookModel;
  readonly healths: HealthModel;
}

/** Reads webhooks with their health, oldest first. Which ones, a filter says that an index answers. */
export type ReadWebhooks = (
  filter: Readonly<Record<string, unknown>>,
  limit: number,
  hint?: string,
) => Promise<AccountWebhook[]>;

function toHealth(health: Partial<HealthDocument>, now: number): AccountWebhook['health'] {
  const { lastSuccessAt, lastFailure, failingSince, failures } = health;
  return {
    state: healthState(health, now),
    ...(lastSuccessAt !== undefined && { lastSuccessAt }),
    ...(lastFailure && { lastFailure }),
    ...(failingSince && { failingSince }),
    ...(failures !== undefined && { failures }),
  };
}

export function createReadWebhooks({ webhooks, healths }: ReadWebhooksDeps): ReadWebhooks {
  const webhookCollection = durableCollection(webhooks);
  const healthCollection = durableCollection(healths);

  return async function readWebhooks(filter, limit, hint) {
    const documents = await webhookCollection
      .aggregate<WebhookDocument>(
        [
          { $match: filter },
          { $sort: { _id: 1 } },
          { $limit: limit },
          // sealed, and not opened here
          { $unset: ['secret', 'headers', 'rotation.previousSecret', 'sealedWith'] },
          { $set: { rotation: liveRotation } },
        ],
        { ...inOneBatch, ...(hint !== undefined && { hint }) },
      )
      .toArray();
    const ids = documents.map(({ _id }) => _id);
    const health = await healthCollection.find({ _id: { $in: ids } }, inOneBatch).toArray();
    const byId = new Map(health.map((document) => [document._id, document]));
    const now = Date.now();
    return documents.map((webhook) => ({ ...toDetails(webhook), health: toHealth(byId.get(webhook._id) ?? {}, now) }));
  };
}
