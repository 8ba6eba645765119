import type { WebhookDocument } from '../../../webhooks/model.ts';
import { createSealer, createSecrets } from '../../../webhooks/secrets.ts';
import { type DatabaseContext, failed, problemsOr, type Result, skipped } from '../check.ts';

/** How many webhooks of each key are opened. */
const sampleSize = 20;

/** Whether SECRET_KEYS opens the sealed secrets of webhooks: a sample of each key that has sealed some. */
export async function checkSealingKeys({ db, models, settings }: DatabaseContext): Promise<readonly Result[]> {
  const { secretKeys } = settings;
  if (!secretKeys) return [skipped('SECRET_KEYS is not set')];
  const sealer = createSealer(secretKeys);
  const secrets = createSecrets(models.webhooks, sealer);
  const webhooks = db.collection<WebhookDocument>(models.webhooks.collection.collectionName);
  const used: string[] = await webhooks.distinct('sealedWith');

  async function judge(keyId: string): Promise<readonly Result[]> {
    const key = `the key '${keyId}'`;
    if (!sealer.keyIds.includes(keyId)) {
      return [failed(`secrets are sealed with ${key}, which is not in SECRET_KEYS`, 'add it behind the others')];
    }
    const sample = await webhooks.find({ sealedWith: keyId }).limit(sampleSize).toArray();
    const unreadable = sample.filter((webhook) => {
      try {
        secrets.open(webhook);
        return false;
      } catch {
        return true;
      }
    });
    if (unreadable.length === 0) return [];
    const ids = unreadable.map(({ _id }) => _id).join(', ');
    const message = `${key} does not open ${unreadable.length} of ${sample.length} secrets: ${ids}`;
    return [failed(message, `set the bytes of ${key} with which they were sealed, or rotate these secrets`)];
  }

  const problems = (await Promise.all(used.map(judge))).flat();
  return problemsOr(problems, `SECRET_KEYS opens the secrets of webhooks (keys in use: ${used.join(', ') || 'none'})`);
}
