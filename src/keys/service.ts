import { GatewayError } from '../errors.ts';
import type { EventInput, PublishOptions } from '../events/service.ts';
import { checkUserId, isId, newId } from '../ids.ts';
import { durableCollection } from '../mongo/collection.ts';
import { createReadConfirmed } from '../mongo/confirmed-reads.ts';
import { storeInFreeSlot } from '../mongo/free-slot.ts';
import { inAccountAfter } from '../mongo/in-account-after.ts';
import { checkPage, type Page, pageLimit } from '../mongo/list-page.ts';
import type { RunInTransaction } from '../mongo/transaction.ts';
import type { KeyBudgets } from '../options/budgets.ts';
import type { ApiKey, ApiKeyInput, NewApiKey } from './api-key.ts';
import { digestOf, newKeyText } from './authentication/key-text.ts';
import { createLastUsed } from './authentication/last-used.ts';
import { createLookUp } from './authentication/read-key-records.ts';
import { createKeyVerifier, type KeyVerifier } from './authentication/verify-key.ts';
import { toKeyFields } from './fields.ts';
import { noBudgets, toApiKey, toApiKeys } from './key-budgets.ts';
import { createPublishKeyEvent } from './key-events.ts';
import { type KeyDocument, type KeyModel, markUsed, releaseExpired, takenSlots } from './model.ts';
import { createRevoke, type Revoke } from './revoke.ts';
import { createUpdate, type Update } from './update.ts';

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

export interface KeyService
  extends Pick<KeyVerifier, 'authenticate' | 'authenticateCached' | 'authenticateInGracePeriod'> {
  /**
   * Creates a key for an account and publishes `api_key.created`: both or neither.
   * @throws GatewayError `invalid_value` for a wrong field; `api_key_limit_reached` if the account has the maximum of
   * working keys; `publish_unconfirmed` if the database does not confirm the write: that key is lost, so create another one
   */
  create(input: ApiKeyInput): Promise<NewApiKey>;
  readonly update: Update;
  readonly revoke: Revoke;
  /**
   * An account's keys, oldest first, including expired and revoked ones.
   * @throws GatewayError `invalid_value`
   */
  list(userId: string, page?: Page): Promise<{ readonly keys: ApiKey[]; readonly hasMore: boolean }>;
  get(id: string): Promise<ApiKey | null>;
  /** Writes the last uses that are not written yet. */
  close(): Promise<void>;
}

/**
 * Stores a key under a slot that no other working key of its account has. A key that expires or is revoked frees its slot.
 * @throws GatewayError `api_key_limit_reached` if none is free
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

/** Creates, recognises and revokes API keys. */
export function createKeyService(deps: KeyServiceDeps): KeyService {
  const {
    keys,
    budgets = noBudgets,
    maxKeys = 100,
    cacheTtl = 900,
    cacheCapacity = 10_000,
    gracePeriod = 300_000,
    lastUsedDelay,
  } = deps;
  const readConfirmed = createReadConfirmed<KeyDocument>(durableCollection(keys));
  const lastUsed = createLastUsed({
    write: (ids) => markUsed(keys, ids),
    onFailure: deps.onLastUsedLost,
    ...(lastUsedDelay !== undefined && { delay: lastUsedDelay }),
  });
  const verifier = createKeyVerifier({
    read: createLookUp(keys, readConfirmed, deps.accountBudgets ?? 'no_account_budgets'),
    cacheTtl,
    cacheCapacity,
    gracePeriod,
    onUse: lastUsed.note,
  });
  const { authenticate, authenticateCached, authenticateInGracePeriod } = verifier;

  const publish = createPublishKeyEvent(deps.publish);
  return {
    async create(input) {
      const fields = toKeyFields(input);
      budgets.check(fields.budgets);
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
      const used = await budgets.usage(fields.userId, [{ id, budgets: fields.budgets }]);
      return { id, key, ...fields, budgets: used.get(id) ?? [], createdAt };
    },

    authenticate,
    authenticateCached,
    authenticateInGracePeriod,

    update: createUpdate({ keys, budgets, onUpdated: verifier.changed }),
    revoke: createRevoke({ keys, publish, transaction: deps.transaction, onRevoked: verifier.revoked }),

    async list(userId, page = {}) {
      checkUserId(userId);
      const { limit = pageLimit, after } = page;
      checkPage(page, 'key');
      const documents = await keys
        .find(inAccountAfter(userId, after))
        .sort({ _id: 1 })
        .limit(limit + 1)
        .lean();
      return { keys: await toApiKeys(documents.slice(0, limit), budgets), hasMore: documents.length > limit };
    },

    async get(id) {
      if (!isId('key', id)) return null;
      const key = await readConfirmed(id, () => keys.findById(id).lean<KeyDocument>());
      return key && toApiKey(key, budgets);
    },

    close: lastUsed.close,
  };
}

/** The same error for an unknown id, a malformed one and one of another account. */
export function apiKeyNotFound(id: string): GatewayError {
  return new GatewayError(
    'api_key_not_found',
    `No API key ${id} is in this account; GET /v1/api_keys lists those that are`,
    { param: 'id' },
  );
}
