import type { ClientSession } from 'mongoose';
import { GatewayError } from '../errors.ts';
import type { EventInput, PublishOptions } from '../events/publication.ts';
import { checkUserId, isId, newId } from '../ids.ts';
import { durableCollection } from '../mongo/collection.ts';
import { confirmAbsent, createReadConfirmed } from '../mongo/confirmed-reads.ts';
import type { RunInTransaction } from '../mongo/transaction.ts';
import { storeInFreeSlot } from '../mongo/writes/free-slot.ts';
import { type ApiKey, type ApiKeyInput, type KeyPage, type NewApiKey, toApiKey, toRecord } from './api-key.ts';
import { toKeyFields, toPage } from './fields.ts';
import { digestOf, newKeyText } from './key-text.ts';
import { createLastUsed } from './last-used.ts';
import { createLookUp } from './look-up.ts';
import { type KeyDocument, type KeyModel, keysAfter, markUsed, releaseExpired, takenSlots } from './model.ts';
import { createKeyVerifier, type KeyVerifier } from './verifier.ts';

export interface KeyServiceDeps {
  readonly keys: KeyModel;
  /** Publishes an event, inside the transaction of the session. */
  readonly publish: (event: EventInput, options: PublishOptions) => Promise<unknown>;
  readonly transaction: RunInTransaction;
  /** Told when the time of a key's last use could not be written. */
  readonly onLastUsedLost: (error: unknown) => void;
  /** Keys that work one account may have. @default 100 */
  readonly maxKeys?: number;
  /** How long, in milliseconds, a key revoked by another process may still be taken here; 1 s at most. @default 900 */
  readonly cacheTtl?: number;
  /** Keys remembered at once. @default 10_000 */
  readonly cacheCapacity?: number;
  /** How long a record serves `recall`. Milliseconds. @default 300_000 */
  readonly gracePeriod?: number;
  /** How long uses are gathered before they are written. Milliseconds. @default 1_000 */
  readonly lastUsedDelay?: number;
}

export interface KeyService extends Pick<KeyVerifier, 'authenticate' | 'recogniseCached' | 'recall'> {
  /**
   * Makes a key for an account and publishes `api_key.created`: both or neither.
   * @throws GatewayError `invalid_value` for a field that cannot be taken; `api_key_limit_reached` where the account has
   *   as many keys that work as it may have; `publish_unconfirmed` when the database left
   *   open whether it was written: nobody has that key, make another
   */
  create(input: ApiKeyInput): Promise<NewApiKey>;
  /**
   * Revokes a key and publishes `api_key.revoked`, once: here at once, in every other process within a second.
   * @param userId the account that it must belong to; any when it is left out
   * @returns whether there was a key to revoke that was not revoked already
   */
  revoke(id: string, userId?: string): Promise<boolean>;
  /**
   * An account's keys, oldest first, the expired and the revoked ones too.
   * @throws GatewayError `invalid_value`
   */
  list(userId: string, page?: KeyPage): Promise<{ readonly keys: ApiKey[]; readonly hasMore: boolean }>;
  get(id: string): Promise<ApiKey | null>;
  /** Writes the last uses that are still to be written. */
  close(): Promise<void>;
}

function keyEvent(type: 'api_key.created' | 'api_key.revoked', { _id, name, userId }: KeyDocument) {
  const event = { type, userId, data: { api_key_id: _id, name, user_id: userId } };
  return { event, idempotencyKey: `${type}:${_id}` };
}

/**
 * Stores a key under a slot that no working key of its account has. A key that ends gives its slot back.
 * @throws GatewayError `api_key_limit_reached` where none is free
 */
async function inFreeSlot(
  keys: KeyModel,
  maxKeys: number,
  userId: string,
  store: (slot: number) => Promise<void>,
): Promise<void> {
  await storeInFreeSlot({
    count: maxKeys,
    async taken() {
      const slots = await takenSlots(keys, userId);
      if (slots.size < maxKeys) return slots;
      await releaseExpired(keys, userId);
      return takenSlots(keys, userId);
    },
    store,
    full: () => {
      const message = `This account already has the maximum of ${maxKeys} API keys; revoke one first`;
      return new GatewayError('api_key_limit_reached', message);
    },
  });
}

/** API keys: created, recognised, revoked. */
export function createKeyService(deps: KeyServiceDeps): KeyService {
  const { keys, maxKeys = 100, cacheTtl = 900, cacheCapacity = 10_000, gracePeriod = 300_000, lastUsedDelay } = deps;
  const readConfirmed = createReadConfirmed<KeyDocument>(durableCollection(keys));
  const lastUsed = createLastUsed({
    write: (ids) => markUsed(keys, ids),
    onFailure: deps.onLastUsedLost,
    ...(lastUsedDelay !== undefined && { delay: lastUsedDelay }),
  });
  const verifier = createKeyVerifier({
    read: createLookUp(keys, readConfirmed),
    cacheTtl,
    cacheCapacity,
    gracePeriod,
    onUse: lastUsed.note,
  });
  const { authenticate, recogniseCached, recall } = verifier;

  async function publish(type: 'api_key.created' | 'api_key.revoked', key: KeyDocument, session?: ClientSession) {
    const { event, idempotencyKey } = keyEvent(type, key);
    await deps.publish(event, { idempotencyKey, ...(session && { session }) });
  }

  return {
    async create(input) {
      const fields = toKeyFields(input);
      const createdAt = new Date();
      const id = newId('key', createdAt.getTime());
      const key = newKeyText(id);
      const hash = digestOf(key).toString('hex');
      const stored = { _id: id, ...fields, hash, createdAt, lastUsedAt: null, revokedAt: null };
      await inFreeSlot(keys, maxKeys, fields.userId, (slot) =>
        deps.transaction(async (session) => {
          await keys.create([{ ...stored, slot }], session ? { session } : {});
          await publish('api_key.created', stored, session);
        }),
      );
      verifier.created(id);
      return { id, key, ...fields, createdAt };
    },

    authenticate,
    recogniseCached,
    recall,

    async revoke(id, userId) {
      if (!isId('key', id)) return false;
      if (userId !== undefined) checkUserId(userId);
      const filter = userId === undefined ? { _id: id } : { _id: id, userId };
      const before = await deps.transaction(async (session) => {
        const found = await keys
          .findOneAndUpdate(
            filter,
            [{ $set: { revokedAt: { $ifNull: ['$revokedAt', '$$NOW'] } } }, { $unset: 'slot' }],
            { updatePipeline: true, returnDocument: 'before', ...(session && { session }) },
          )
          .lean();
        if (found?.revokedAt === null) await publish('api_key.revoked', found, session);
        return found;
      });
      if (!before) {
        // a replaced primary may not know the key: make sure that it does not exist before saying so
        await confirmAbsent(durableCollection(keys), filter);
        return false;
      }
      verifier.revoked(id, toRecord(before, false));
      return before.revokedAt === null;
    },

    async list(userId, page = {}) {
      checkUserId(userId);
      const { limit, after } = toPage(page);
      const found = await keys
        .find(after === undefined ? { userId } : { userId, _id: keysAfter(after) })
        .sort({ _id: 1 })
        .limit(limit + 1)
        .lean();
      return { keys: found.slice(0, limit).map(toApiKey), hasMore: found.length > limit };
    },

    async get(id) {
      if (!isId('key', id)) return null;
      const found = await readConfirmed(id, () => keys.findById(id).lean<KeyDocument>());
      return found && toApiKey(found);
    },

    close: lastUsed.close,
  };
}

/** The same answer for an unknown id, a malformed one and another account's. */
export function apiKeyNotFound(id: string): GatewayError {
  return new GatewayError('api_key_not_found', `No API key ${id} in this account`, { param: 'id' });
}
