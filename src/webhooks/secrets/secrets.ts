import { GatewayError } from '../../errors.ts';
import { durableCollection } from '../../mongo/collection.ts';
import { findOneConfirmed } from '../../mongo/confirmed-reads.ts';
import type { WebhookDocument, WebhookModel } from '../model.ts';
import type { SecretRotation } from '../webhook.ts';
import type { Sealer } from './sealing.ts';

/** A webhook's fields that hold something sealed. */
export type SecretField = 'secret' | 'previousSecret';

type Sealed = Pick<WebhookDocument, '_id' | 'secret' | 'rotation'>;

/** Secrets as they are stored: each opens only in the webhook and the field that it was sealed for. */
export interface Secrets {
  /** The id of the key that seals. */
  readonly newestKeyId: string;
  seal(webhookId: string, field: SecretField, secret: string): string;
  /** @throws GatewayError `secret_unreadable` */
  open(webhook: Sealed): { readonly secret: string; readonly rotation: SecretRotation | null };
}

/** Secrets kept open, so that a busy webhook's is not opened again for every delivery. */
const keptOpen = 1_000;

/** Opens sealed texts, each only once as long as it is in use. */
function createOpener(sealer: Sealer): Sealer['open'] {
  /** The one used longest ago first. */
  const opened = new Map<string, string>();
  return function open(sealed, place) {
    const key = `${place} ${sealed}`;
    const plain = opened.get(key) ?? sealer.open(sealed, place);
    opened.delete(key);
    opened.set(key, plain);
    const [oldest] = opened.keys();
    if (opened.size > keptOpen && oldest !== undefined) opened.delete(oldest);
    return plain;
  };
}

/** How one collection's secrets are sealed and opened. */
export function createSecrets(webhooks: WebhookModel, sealer: Sealer): Secrets {
  const place = (id: string, field: SecretField) => `${webhooks.collection.collectionName}:${id}:${field}`;
  const openOnce = createOpener(sealer);
  return {
    newestKeyId: sealer.newestKeyId,
    seal: (id, field, secret) => sealer.seal(secret, place(id, field)),
    open({ _id, secret, rotation }) {
      return {
        secret: openOnce(secret, place(_id, 'secret')),
        rotation: rotation
          ? { ...rotation, previousSecret: openOnce(rotation.previousSecret, place(_id, 'previousSecret')) }
          : null,
      };
    },
  };
}

/** The ids of keys in use that are not among some; each costs one look into the index. That there are no others is confirmed. */
export async function keyIdsBeside(webhooks: WebhookModel, known: readonly string[]): Promise<string[]> {
  const collection = durableCollection(webhooks);
  const found = new Set<string>();
  for (;;) {
    const others = { $elemMatch: { $nin: [...known, ...found] } };
    const webhook = await findOneConfirmed(collection, { sealedWith: others }, { projection: { sealedWith: 1 } });
    if (!webhook) return [...found];
    for (const id of webhook.sealedWith) if (!known.includes(id)) found.add(id);
  }
}

/**
 * Makes sure that every stored secret has its key.
 * @throws GatewayError `invalid_options`, naming the ids of the keys that are missing
 */
export async function requireEveryKey(webhooks: WebhookModel, sealer: Sealer): Promise<void> {
  const missing = await keyIdsBeside(webhooks, sealer.keyIds);
  if (missing.length === 0) return;
  const ids = missing.map((id) => `'${id}'`).join(', ');
  throw new GatewayError(
    'invalid_options',
    `secretKeys: stored webhook secrets are sealed with ${ids}, which is not among them; ` +
      'add it behind the others, and take it out only after everything has been sealed anew',
    { param: 'secretKeys' },
  );
}
