import { timingSafeEqual } from 'node:crypto';
import { GatewayError } from '../errors.ts';
import type { Principal } from '../http/operation.ts';
import { checkUserId, isId, newId } from '../ids.ts';
import { createKeyCache, type KeyRecord } from './cache.ts';
import { digestOf, keyIdIn, newKeyText } from './key-text.ts';
import type { KeyDocument, KeyModel } from './model.ts';

/** An API key, without its text. */
export interface ApiKey {
  /** `key_…` */
  readonly id: string;
  readonly userId: string;
  readonly name: string;
  readonly createdAt: Date;
  readonly revokedAt: Date | null;
}

/** A key just made. `key` is shown this once: only its digest is stored. */
export interface NewApiKey extends Omit<ApiKey, 'revokedAt'> {
  readonly key: string;
}

export interface KeyServiceDeps {
  readonly keys: KeyModel;
  /** How long, in milliseconds, a key revoked by another process may still be taken here; 1 s at most. @default 900 */
  readonly cacheTtl?: number;
  /** Keys remembered at once. @default 10_000 */
  readonly cacheCapacity?: number;
}

export interface KeyService {
  /**
   * Makes a key for an account.
   * @throws GatewayError `invalid_value` for a user id or name that cannot be stored
   */
  create(input: { userId: string; name?: string }): Promise<NewApiKey>;
  /** Whose key it is; `null` where it is malformed (the database is not asked), unknown, wrong or revoked. */
  authenticate(token: string): Promise<Principal | null>;
  /** Revokes a key: here at once, in every other process within a second. Whether there was a good key to revoke. */
  revoke(id: string): Promise<boolean>;
  /** An account's keys, oldest first, the revoked ones too. */
  list(userId: string): Promise<ApiKey[]>;
  get(id: string): Promise<ApiKey | null>;
}

const nameLimit = 100;

function checkName(name: string): void {
  if (typeof name !== 'string' || name.length > nameLimit || /[\0\p{Surrogate}]/u.test(name)) {
    throw new GatewayError('invalid_value', `name: must be a string of at most ${nameLimit} characters`, {
      param: 'name',
    });
  }
}

function toApiKey({ _id, userId, name, createdAt, revokedAt }: KeyDocument): ApiKey {
  return { id: _id, userId, name, createdAt, revokedAt };
}

function toRecord({ hash, userId, revokedAt }: KeyDocument): KeyRecord {
  return { digest: Buffer.from(hash, 'hex'), userId, revoked: revokedAt !== null };
}

/** API keys: made, recognised, revoked. */
export function createKeyService({ keys, cacheTtl = 900, cacheCapacity = 10_000 }: KeyServiceDeps): KeyService {
  async function read(id: string): Promise<KeyRecord | null> {
    const found = await keys.findById(id).lean();
    return found && toRecord(found);
  }
  const cache = createKeyCache({ read, ttl: cacheTtl, capacity: cacheCapacity });

  return {
    async create({ userId, name = '' }) {
      checkUserId(userId);
      checkName(name);
      const createdAt = new Date();
      const id = newId('key', createdAt.getTime());
      const key = newKeyText(id);
      await keys.create({ _id: id, userId, name, hash: digestOf(key).toString('hex'), createdAt, revokedAt: null });
      return { id, key, userId, name, createdAt };
    },

    async authenticate(token) {
      const id = keyIdIn(token);
      if (id === null) return null;
      const known = await cache.find(id);
      if (!known || !timingSafeEqual(known.record.digest, digestOf(token))) return null;
      cache.keep(id, known);
      return known.record.revoked ? null : { userId: known.record.userId, keyId: id };
    },

    async revoke(id) {
      if (!isId('key', id)) return false;
      const before = await keys
        .findByIdAndUpdate(id, [{ $set: { revokedAt: { $ifNull: ['$revokedAt', '$$NOW'] } } }], {
          updatePipeline: true,
          returnDocument: 'before',
        })
        .lean();
      if (!before) return false;
      cache.keep(id, { record: { ...toRecord(before), revoked: true }, since: performance.now() });
      return before.revokedAt === null;
    },

    async list(userId) {
      checkUserId(userId);
      const found = await keys.find({ userId }).sort({ _id: 1 }).lean();
      return found.map(toApiKey);
    },

    async get(id) {
      if (!isId('key', id)) return null;
      const found = await keys.findById(id).lean();
      return found && toApiKey(found);
    },
  };
}
