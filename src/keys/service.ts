import type { ClientSession } from 'mongoose';
import { GatewayError, notFound } from '../errors.ts';
import type { EventInput, PublishOptions } from '../events/service.ts';
import { checkUserId, isId, newId } from '../ids.ts';
import { durableCollection } from '../mongo/collection.ts';
import { confirmAbsent, createReadConfirmed } from '../mongo/confirmed-reads.ts';
import type { RunInTransaction } from '../mongo/connection/availability.ts';
import { storeInFreeSlot } from '../mongo/free-slot.ts';
import { type Page, readAccountPage } from '../mongo/list-page.ts';
import { type KeyBudgets, toBudgets } from '../options/budgets.ts';
import {
  type ApiKey,
  type ApiKeyInput,
  type ApiKeyPatch,
  type NewApiKey,
  noBudgets,
  toApiKey,
  toApiKeys,
  toKeyFields,
} from './api-key.ts';
import { type KeyDocument, type KeyModel, markUsed, releaseExpired, takenSlots } from './model.ts';
import {
  createKeyVerifier,
  createLastUsed,
  createLookUp,
  digestOf,
  type KeyVerifier,
  newKeyText,
  toRecord,
} from './verify-key.ts';

export interface KeyServiceDeps {
  readonly keys: KeyModel;
  /** Publishes an event, inside the transaction of the session. */
  readonly publish: (event: EventInput, options: PublishOptions) => Promise<unknown>;
  readonly transaction: RunInTransaction;
  /** The collection of the budgets of accounts, by user id. @default one that is empty */
  readonly accountBudgets?: string;
  /** @default no key may have budgets */
  readonly budgets?: KeyBudgets;
  /** Called when the times of last uses could not be written. */
  readonly onLastUsedLost: (error: unknown) => void;
  /** The most working keys of one account. @default 100 */
  readonly maxKeys?: number;
  /** How long this process may accept a key that another one has revoked, at most 1 s. Milliseconds. @default 900 */
  readonly cacheTtl?: number;
  /** The most keys in the cache. @default 10_000 */
  readonly cacheCapacity?: number;
  /** How long a record serves `authenticateInGracePeriod`. Milliseconds. @default 300_000 */
  readonly gracePeriod?: number;
  /** How long uses are gathered before they are written. Milliseconds. @default 1_000 */
  readonly lastUsedDelay?: number;
}

export type KeyService = ReturnType<typeof createKeyService>;

/** Publishes that a key was created or revoked, once for each key; in the transaction of the session. */
async function publishKeyEvent(
  publish: KeyServiceDeps['publish'],
  type: 'api_key.created' | 'api_key.revoked',
  { _id, name, userId }: KeyDocument,
  session: ClientSession | undefined,
): Promise<void> {
  const event = { type, userId, data: { api_key_id: _id, name, user_id: userId } };
  await publish(event, { idempotencyKey: `${type}:${_id}`, ...(session && { session }) });
}

/** The key that a call names: of one account, or of any. */
function filterOf(id: string, userId: string | undefined) {
  if (userId === undefined) return { _id: id };
  checkUserId(userId);
  return { _id: id, userId };
}

function createCreate(
  { keys, publish, transaction, maxKeys = 100 }: KeyServiceDeps,
  keyBudgets: KeyBudgets,
  verifier: KeyVerifier,
) {
  const collection = durableCollection(keys);

  return async function create(input: ApiKeyInput): Promise<NewApiKey> {
    const fields = toKeyFields(input);
    const { userId } = fields;
    keyBudgets.check(fields.budgets);
    const createdAt = new Date();
    const id = newId('key', createdAt.getTime());
    const key = newKeyText(id);
    const hash = digestOf(key).toString('hex');
    const stored = { _id: id, ...fields, hash, createdAt, lastUsedAt: null, revokedAt: null };
    await storeInFreeSlot({
      count: maxKeys,
      async taken() {
        const slots = await takenSlots(keys, userId);
        if (slots.size < maxKeys) return slots;
        await releaseExpired(keys, userId);
        return takenSlots(keys, userId);
      },
      store: (slot) =>
        transaction(async (session) => {
          await collection.insertOne({ ...stored, slot }, session && { session });
          await publishKeyEvent(publish, 'api_key.created', stored, session);
        }),
      full: () => {
        const message = `This account already has the maximum of ${maxKeys} API keys; revoke one first`;
        return new GatewayError('api_key_limit_reached', message);
      },
    });
    verifier.created(id);
    const used = await keyBudgets.usage(userId, [{ id, budgets: fields.budgets }]);
    return { id, key, ...fields, budgets: used.get(id) ?? [], createdAt };
  };
}

function createUpdate(keys: KeyModel, keyBudgets: KeyBudgets, verifier: KeyVerifier) {
  const collection = durableCollection(keys);

  return async function update(id: string, patch: ApiKeyPatch, userId?: string): Promise<ApiKey | null> {
    if (!isId('key', id)) return null;
    const filter = filterOf(id, userId);
    const budgets = toBudgets(patch.budgets);
    keyBudgets.check(budgets);
    const key = await collection.findOneAndUpdate(filter, { $set: { budgets } }, { returnDocument: 'after' });
    if (!key) {
      // a replaced primary may not know the key
      await confirmAbsent(collection, filter);
      return null;
    }
    verifier.changed(id);
    return toApiKey(key, keyBudgets);
  };
}

function createRevoke({ keys, publish, transaction }: KeyServiceDeps, verifier: KeyVerifier) {
  const revocation = [{ $set: { revokedAt: { $ifNull: ['$revokedAt', '$$NOW'] } } }, { $unset: 'slot' }];
  const options = { returnDocument: 'before' } as const;
  const collection = durableCollection(keys);

  return async function revoke(id: string, userId?: string): Promise<boolean> {
    if (!isId('key', id)) return false;
    const filter = filterOf(id, userId);
    const before = await transaction(async (session) => {
      const key = await collection.findOneAndUpdate(filter, revocation, { ...options, ...(session && { session }) });
      if (key?.revokedAt === null) await publishKeyEvent(publish, 'api_key.revoked', key, session);
      return key;
    });
    if (!before) {
      // a replaced primary may not know the key: make sure that it does not exist before saying so
      await confirmAbsent(collection, filter);
      return false;
    }
    verifier.revoked(id, toRecord(before, false));
    return before.revokedAt === null;
  };
}

/** Creates, recognises and revokes API keys. */
export function createKeyService(deps: KeyServiceDeps) {
  const { keys, budgets = noBudgets, lastUsedDelay } = deps;
  const { cacheTtl: ttl = 900, cacheCapacity: capacity = 10_000, gracePeriod = 300_000 } = deps;
  const collection = durableCollection(keys);
  const readConfirmed = createReadConfirmed(collection);
  const lastUsed = createLastUsed({
    write: (ids) => markUsed(keys, ids),
    onFailure: deps.onLastUsedLost,
    ...(lastUsedDelay !== undefined && { delay: lastUsedDelay }),
  });
  const verifier = createKeyVerifier({
    read: createLookUp(keys, readConfirmed, deps.accountBudgets ?? 'no_account_budgets'),
    ttl,
    capacity,
    gracePeriod,
    onUse: lastUsed.note,
  });
  const { authenticate, authenticateById, authenticateCached, authenticateInGracePeriod } = verifier;

  return {
    /** Whose key it is; `null` if it is malformed (this needs no database), unknown, wrong, expired or revoked. */
    authenticate,
    authenticateById,
    authenticateCached,
    authenticateInGracePeriod,
    /**
     * Creates a key for an account and publishes `api_key.created`: both or neither. The key has a slot that no other working key of its
     * account has; one that expires or is revoked frees its slot.
     * @throws GatewayError `invalid_value` for a wrong field; `api_key_limit_reached` if the account has the maximum of
     * working keys; `publish_unconfirmed` if the database does not confirm the write: that key is lost, so create another one
     */
    create: createCreate(deps, budgets, verifier),
    /**
     * Changes a key: in this process at once, in every other process within a second.
     * @param userId the account that the key must belong to. @default any
     * @returns `null` if there is no such key
     * @throws GatewayError `invalid_value`
     */
    update: createUpdate(keys, budgets, verifier),
    /**
     * Revokes a key and publishes `api_key.revoked`, once: in this process at once, in every other process within a second.
     * @param userId the account that the key must belong to. @default any
     * @returns whether there was a key that was not revoked yet
     */
    revoke: createRevoke(deps, verifier),

    /**
     * An account's keys, oldest first, including expired and revoked ones.
     * @throws GatewayError `invalid_value`
     */
    async list(userId: string, page: Page = {}): Promise<{ readonly keys: ApiKey[]; readonly hasMore: boolean }> {
      const { documents, hasMore } = await readAccountPage(collection, 'key', userId, page);
      return { keys: await toApiKeys(documents, budgets), hasMore };
    },

    async get(id: string): Promise<ApiKey | null> {
      if (!isId('key', id)) return null;
      const key = await readConfirmed(id, () => collection.findOne({ _id: id }));
      return key && toApiKey(key, budgets);
    },

    /** Writes the last uses that are not written yet. */
    close: lastUsed.close,
  };
}

export const apiKeyNotFound = (id: string) => notFound('api_key_not_found', 'API key', id, 'api_keys');
