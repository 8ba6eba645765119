import { GatewayError } from '../../errors.ts';
import { durableCollection } from '../../mongo/collection.ts';
import { findOneConfirmed } from '../../mongo/confirmed-reads.ts';
import type { WebhookDocument, WebhookModel } from '../model.ts';
import type { SecretRotation } from '../webhook.ts';
import type { Sealer } from './sealing.ts';

/** The sealed fields of a webhook. */
export type SecretField = 'secret' | 'previousSecret' | 'headers';

type Sealed = Pick<WebhookDocument, '_id' | 'secret' | 'rotation' | 'headers'>;

/** What a webhook's sealed fields say. */
export interface Opened {
  readonly secret: string;
  readonly rotation: SecretRotation | null;
  /** The headers of the owner's own, if there are any. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** Seals and opens stored secrets. Each opens only in the webhook and the field that it was sealed for. */
export interface Secrets {
  /** The id of the key that seals. */
  readonly newestKeyId: string;
  seal(webhookId: string, field: SecretField, secret: string): string;
  /** @throws GatewayError `secret_unreadable` */
  open(webhook: Sealed): Opened;
}

/** Opened secrets in memory, so that a busy webhook's secret is not opened again for every delivery. */
const maxOpened = 1_000;

/** Opens sealed texts, and keeps those that were used last. */
function createOpener(sealer: Sealer): Sealer['open'] {
  /** The one used longest ago first. */
  const opened = new Map<string, string>();
  return function open(sealed, place) {
    const key = `${place} ${sealed}`;
    const plain = opened.get(key) ?? sealer.open(sealed, place);
    opened.delete(key);
    opened.set(key, plain);
    const [oldest] = opened.keys();
    if (opened.size > maxOpened && oldest !== undefined) opened.delete(oldest);
    return plain;
  };
}

/** Seals and opens the secrets of one collection. */
export function createSecrets(webhooks: WebhookModel, sealer: Sealer): Secrets {
  const place = (id: string, field: SecretField) => `${webhooks.collection.collectionName}:${id}:${field}`;
  const openOnce = createOpener(sealer);
  return {
    newestKeyId: sealer.newestKeyId,
    seal: (id, field, secret) => sealer.seal(secret, place(id, field)),
    open({ _id, secret, rotation, headers }) {
      return {
        secret: openOnce(secret, place(_id, 'secret')),
        rotation: rotation
          ? { ...rotation, previousSecret: openOnce(rotation.previousSecret, place(_id, 'previousSecret')) }
          : null,
        ...(headers !== undefined && { headers: JSON.parse(openOnce(headers, place(_id, 'headers'))) }),
      };
    },
  };
}

/** The ids of keys in use that are not in `known`. Each costs one read of the index; a confirmed read proves that there are no others. */
export async function keyIdsExcept(webhooks: WebhookModel, known: readonly string[]): Promise<string[]> {
  const collection = durableCollection(webhooks);
  const otherIds = new Set<string>();
  for (;;) {
    const others = { $elemMatch: { $nin: [...known, ...otherIds] } };
    const webhook = await findOneConfirmed(collection, { sealedWith: others }, { projection: { sealedWith: 1 } });
    if (!webhook) return [...otherIds];
    for (const id of webhook.sealedWith) if (!known.includes(id)) otherIds.add(id);
  }
}

/** The ids of keys in use that the sealer does not have, as a usual read finds them: enough for those who ask again. */
export async function missingKeyIds(webhooks: WebhookModel, { keyIds }: Pick<Sealer, 'keyIds'>): Promise<string[]> {
  const used: string[] = await durableCollection(webhooks).distinct('sealedWith');
  return used.filter((id) => !keyIds.includes(id));
}

/**
 * Checks that every stored secret has its key.
 * @throws GatewayError `invalid_options`, naming the ids of the keys that are missing
 */
export async function requireEveryKey(webhooks: WebhookModel, sealer: Sealer): Promise<void> {
  const missing = await keyIdsExcept(webhooks, sealer.keyIds);
  if (missing.length === 0) return;
  const ids = missing.map((id) => `'${id}'`).join(', ');
  throw new GatewayError(
    'invalid_options',
    `secretKeys: stored webhook secrets are sealed with ${ids}, which is not among them; ` +
      'add it behind the others, and remove it only after resealing every secret',
    { param: 'secretKeys' },
  );
}
