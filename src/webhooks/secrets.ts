import { createCipheriv, createDecipheriv, createSecretKey, hkdfSync, type KeyObject, randomBytes } from 'node:crypto';
import { GatewayError, refuse } from '../errors.ts';
import { durableCollection } from '../mongo/collection.ts';
import { findConfirmed, findOneConfirmed } from '../mongo/confirmed-reads.ts';
import { changeByPipeline, dropEndedRotations, type WebhookDocument, type WebhookModel } from './model.ts';
import type { DeliveryTarget } from './webhook.ts';

type SecretField = 'secret' | 'previousSecret' | 'headers';

type Sealed = Pick<WebhookDocument, '_id' | 'secret' | 'rotation' | 'headers'>;

/**
 * Opened secrets in memory, so that a busy webhook's secret is not opened again for every delivery: opening one takes 20 µs.
 */
const maxOpened = 1_000;

/** Seals and opens stored secrets. Each opens only in the webhook and the field that it was sealed for. */
export function createSecrets(webhooks: WebhookModel, sealer: Sealer) {
  const place = (id: string, field: SecretField) => `${webhooks.collection.collectionName}:${id}:${field}`;
  /** The one opened longest ago first. */
  const opened = new Map<string, string>();

  function openOnce(sealed: string, id: string, field: SecretField): string {
    const key = `${place(id, field)} ${sealed}`;
    const present = opened.get(key);
    if (present !== undefined) return present;
    const plain = sealer.open(sealed, place(id, field));
    opened.set(key, plain);
    const [oldest] = opened.keys();
    if (opened.size > maxOpened && oldest !== undefined) opened.delete(oldest);
    return plain;
  }

  return {
    /** The id of the key that seals. */
    newestKeyId: sealer.newestKeyId,
    seal: (id: string, field: SecretField, secret: string) => sealer.seal(secret, place(id, field)),
    /** @throws GatewayError `secret_unreadable` */
    open({ _id, secret, rotation, headers }: Sealed): Pick<DeliveryTarget, 'secret' | 'rotation' | 'headers'> {
      return {
        secret: openOnce(secret, _id, 'secret'),
        rotation: rotation
          ? { ...rotation, previousSecret: openOnce(rotation.previousSecret, _id, 'previousSecret') }
          : null,
        ...(headers !== undefined && { headers: JSON.parse(openOnce(headers, _id, 'headers')) }),
      };
    },
  };
}

export type Secrets = ReturnType<typeof createSecrets>;

/**
 * The ids of keys in use that are not in `known`. Each costs one read of the index, and one tells that there are no others.
 * @param findOne by default, a confirmed read proves that there are no others
 */
async function keyIdsExcept(
  webhooks: WebhookModel,
  known: readonly string[],
  findOne: typeof findOneConfirmed<WebhookDocument> = findOneConfirmed,
): Promise<string[]> {
  const collection = durableCollection(webhooks);
  const otherIds = new Set<string>();
  for (;;) {
    const sealedWith = { $elemMatch: { $nin: [...known, ...otherIds] } };
    const webhook = await findOne(collection, { sealedWith }, { projection: { sealedWith: 1 } });
    if (!webhook) return [...otherIds];
    for (const id of webhook.sealedWith) if (!known.includes(id)) otherIds.add(id);
  }
}

/** The ids of keys in use that the sealer does not have, as a usual read finds them: enough for those who ask again. */
export function missingKeyIds(webhooks: WebhookModel, { keyIds }: Pick<Sealer, 'keyIds'>): Promise<string[]> {
  return keyIdsExcept(webhooks, keyIds, (collection, filter, options) => collection.findOne(filter, options));
}

/**
 * Checks that every stored secret has its key.
 * @throws GatewayError `invalid_options`, naming the ids of the keys that are missing
 */
export async function requireEveryKey(webhooks: WebhookModel, sealer: Sealer): Promise<void> {
  const missing = await keyIdsExcept(webhooks, sealer.keyIds);
  if (missing.length === 0) return;
  const ids = missing.map((id) => `'${id}'`).join(', ');
  const problem = `stored webhook secrets are sealed with ${ids}, which is not among them`;
  const remedy = 'add it behind the others, and remove it only after resealing every secret';
  refuse('invalid_options', 'secretKeys', `${problem}; ${remedy}`);
}

/** Encrypts secrets for the database. A sealed text opens only in the place that it was sealed for. */
export type Sealer = ReturnType<typeof createSealer>;

const cipher = 'aes-256-gcm';
const ivLength = 12;
const tagLength = 16;

function refuseKey(index: number, reason: string): never {
  refuse('invalid_options', `secretKeys[${index}]`, reason);
}

/** Never repeats an entry in a message: it may be a mistyped key. */
function parseKeys(secretKeys: readonly string[]): Map<string, KeyObject> {
  const keys = new Map<string, KeyObject>();
  secretKeys.forEach((entry, i) => {
    const [, id, base64] = /^([A-Za-z0-9_-]{1,32}):([A-Za-z0-9+/_-]{43}=?)$/.exec(String(entry)) ?? [];
    if (id === undefined || base64 === undefined) {
      refuseKey(
        i,
        "must be '<id>:<32 bytes in base64>', the id of letters, digits, _ and -, the bytes from `openssl rand -base64 32`",
      );
    }
    if (keys.has(id)) refuseKey(i, `the id '${id}' is used twice; every key needs an id of its own`);
    keys.set(id, createSecretKey(base64, 'base64'));
  });
  return keys;
}

/** Independent of the machine's language. */
const byNumber = new Intl.Collator('en', { numeric: true });

function unreadable(reason: string, cause?: unknown): GatewayError {
  return new GatewayError('secret_unreadable', `A stored secret cannot be opened: ${reason}`, { cause });
}

function parseSealed(sealed: string) {
  const [version, keyId, ...parts] = sealed.split('.');
  const [iv, text, tag] = parts.map((part) => Buffer.from(part, 'base64url'));
  const hasThreeParts = parts.length === 3 && text && iv?.length === ivLength && tag?.length === tagLength;
  if (version !== 'v1' || !keyId || !hasThreeParts) throw unreadable('it does not have the form v1.key.iv.text.tag');
  return { keyId, iv, text, tag };
}

/**
 * Seals with AES-256-GCM, written as `v1.<key id>.<iv>.<text>.<tag>` in base64url, with the place as additional data.
 * The first key seals, all of them open.
 * @param secretKeys each `<id>:<32 bytes in base64>`
 * @throws GatewayError `invalid_options`, naming the entry
 */
export function createSealer(secretKeys: readonly string[]) {
  const keys = parseKeys(secretKeys);
  const [newest] = keys;
  if (!newest) return refuse('invalid_options', 'secretKeys', 'is required, at least one key');
  const [newestKeyId, newestKey] = newest;

  return {
    /** The id of the key that seals. */
    newestKeyId,
    /** The ids of the keys that open, the newest first. */
    keyIds: [...keys.keys()],
    /**
     * Seals with the newest key.
     * @param place where it will be stored: `collection:id:field`
     */
    seal(plain: string, place: string): string {
      const iv = randomBytes(ivLength);
      const sealing = createCipheriv(cipher, newestKey, iv, { authTagLength: tagLength }).setAAD(Buffer.from(place));
      const text = Buffer.concat([sealing.update(plain, 'utf8'), sealing.final()]);
      const parts = [iv, text, sealing.getAuthTag()].map((part) => part.toString('base64url'));
      return ['v1', newestKeyId, ...parts].join('.');
    },
    /**
     * Opens with whichever key sealed it.
     * @throws GatewayError `secret_unreadable` if that key is missing, or the text was altered or comes from another place
     */
    open(sealed: string, place: string): string {
      const { keyId, iv, text, tag } = parseSealed(sealed);
      const key = keys.get(keyId);
      if (!key) throw unreadable(`the key '${keyId}' that sealed it is not among secretKeys; add it behind the others`);
      try {
        const opening = createDecipheriv(cipher, key, iv, { authTagLength: tagLength })
          .setAAD(Buffer.from(place))
          .setAuthTag(tag);
        return Buffer.concat([opening.update(text), opening.final()]).toString('utf8');
      } catch (cause) {
        throw unreadable(`it was altered, or the key '${keyId}' among secretKeys is not the one that sealed it`, cause);
      }
    },
    /**
     * The id of the key that sealed a text; does not open it.
     * @throws GatewayError `secret_unreadable` if it is no sealed text
     */
    keyIdOf: (sealed: string) => parseSealed(sealed).keyId,
    /**
     * Derives a key for another purpose (HKDF, RFC 5869), from the key whose id sorts first, with numbers in ids sorted as
     * numbers: k9 before k10, 2026-01 before 2026-07. The order of the list does not matter.
     */
    derive(purpose: string): Buffer {
      const [firstId = ''] = [...keys.keys()].sort((a, b) => byNumber.compare(a, b) || (a < b ? -1 : 1));
      const key = keys.get(firstId) as KeyObject;
      return Buffer.from(hkdfSync('sha256', key, '', `express-model-gateway: ${purpose}`, 32));
    },
  };
}

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
      const asFound = { _id: found._id, secret: webhook.secret, headers: webhook.headers ?? { $exists: false } };
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
