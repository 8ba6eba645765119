import { durableCollection } from '../../mongo/collection.ts';
import { findConfirmed, findOneConfirmed } from '../../mongo/confirmed-reads.ts';
import { changeByPipeline, dropEndedRotations, type WebhookDocument, type WebhookModel } from '../model.ts';
import { keyIdsExcept, type Secrets } from './secrets.ts';

/** The result of resealing. */
export interface Resealed {
  /** The number of webhooks whose secrets were sealed with the newest key. */
  readonly resealed: number;
  /** Ids of webhooks whose secrets cannot be opened, because they were altered or their key is missing. They stay as they are. */
  readonly unreadable: readonly string[];
}

/** Webhooks in one batch. */
const batchSize = 100;

/**
 * Makes the function that seals every secret with the newest key, so that older keys can be removed from the options. Safe while
 * gateways run, and if it is interrupted and run again.
 */
export function createReseal(webhooks: WebhookModel, secrets: Secrets): () => Promise<Resealed> {
  const { newestKeyId } = secrets;
  const collection = durableCollection(webhooks);

  function sealedAnew(webhook: WebhookDocument): Record<string, unknown> {
    const { secret, rotation, headers } = secrets.open(webhook);
    const { _id } = webhook;
    return {
      secret: secrets.seal(_id, 'secret', secret),
      ...(rotation && { 'rotation.previousSecret': secrets.seal(_id, 'previousSecret', rotation.previousSecret) }),
      ...(headers && { headers: secrets.seal(_id, 'headers', JSON.stringify(headers)) }),
    };
  }

  /** Resolves to `false` if there was nothing to do; the secret may have been replaced meanwhile. */
  async function resealOne(found: WebhookDocument): Promise<boolean> {
    let webhook: WebhookDocument | null = found;
    while (webhook?.sealedWith.some((id) => id !== newestKeyId)) {
      const asFound = { _id: found._id, secret: webhook.secret, headers: webhook.headers ?? null };
      if (await changeByPipeline(webhooks, asFound, sealedAnew(webhook))) return true;
      webhook = await findOneConfirmed(collection, { _id: found._id });
    }
    return false;
  }

  /** By confirmed reads: a webhook that is missed cannot be read any more once its key is removed. */
  async function* batchesSealedWith(keyId: string): AsyncGenerator<WebhookDocument[]> {
    const options = { sort: { _id: 1 }, limit: batchSize } as const;
    let after = '';
    for (;;) {
      const batch = await findConfirmed(collection, { sealedWith: keyId, _id: { $gt: after } }, options);
      const last = batch.at(-1);
      if (!last) return;
      yield batch;
      after = last._id;
    }
  }

  return async function reseal() {
    let resealed = 0;
    const unreadable = new Set<string>();
    await dropEndedRotations(webhooks);
    for (const keyId of await keyIdsExcept(webhooks, [newestKeyId])) {
      for await (const batch of batchesSealedWith(keyId)) {
        const results = await Promise.allSettled(batch.map(resealOne));
        for (const [i, result] of results.entries()) {
          if (result.status === 'fulfilled') resealed += Number(result.value);
          else if (result.reason?.code === 'secret_unreadable') unreadable.add((batch[i] as WebhookDocument)._id);
          else throw result.reason;
        }
      }
    }
    return { resealed, unreadable: [...unreadable] };
  };
}
