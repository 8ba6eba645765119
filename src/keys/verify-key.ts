import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { createBatcher, writeIsolated } from '../mongo/batcher.ts';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import type { ReadConfirmed } from '../mongo/confirmed-reads.ts';
import type { DatabaseAccess } from '../mongo/connection/availability.ts';
import { isUnavailableError } from '../mongo/unavailable.ts';
import type { Budget } from '../options/budgets.ts';
import type { Principal } from '../options/principal.ts';
import { good, type KeyDocument, type KeyModel } from './model.ts';

export interface KeyVerifierDeps extends KeyCacheOptions {
  /** How long a record serves `authenticateInGracePeriod`. Milliseconds. */
  readonly gracePeriod: number;
  /** Called for each use of a good key. */
  readonly onUse: (id: string) => void;
}

/** Says whose key a token is. */
export type KeyVerifier = ReturnType<typeof createKeyVerifier>;

export function createKeyVerifier(deps: KeyVerifierDeps) {
  const { capacity, gracePeriod, onUse } = deps;
  const cache = createKeyCache(deps);

  /** The tokens that match the cached record of their key: a busy key is hashed once per record. A hash takes 4 µs here, this look 1. */
  const proven = new Map<string, CachedKey>();

  function isRight(token: string, cached: CachedKey): boolean {
    if (proven.get(token) === cached) return true;
    if (!timingSafeEqual(cached.record.digest, digestOf(token))) return false;
    if (proven.size >= capacity) proven.clear();
    proven.set(token, cached);
    return true;
  }

  /** @param token `undefined` from those who have proved before that the key is theirs */
  function judge(id: string, cached: CachedKey | null, token?: string): Principal | null {
    if (!cached || (token !== undefined && !isRight(token, cached))) return null;
    cache.keep(id, cached);
    if (!cached.record.good) return null;
    onUse(id);
    return cached.record.principal;
  }

  /** Who the bearer of a key is, for whoever has proved that before; `null` if there is no such key, or it has expired or was revoked. */
  async function authenticateById(id: string): Promise<Principal | null> {
    return judge(id, await cache.find(id));
  }

  async function authenticate(token: string): Promise<Principal | null> {
    const id = keyIdIn(token);
    return id === null ? null : judge(id, await cache.find(id), token);
  }

  /** The same as `authenticate` without waiting for the database; `undefined` if only the database knows. */
  function authenticateCached(token: string): Principal | null | undefined {
    const id = keyIdIn(token);
    if (id === null) return null;
    const cached = cache.peek(id);
    const principal = cached && judge(id, cached, token);
    if (principal) cache.renew(id, cached);
    return principal;
  }

  /**
   * Whose key it was when this process last checked it, at most the grace period ago. For use while the database is
   * unavailable. `null` if it was not good then, or has expired since; `undefined` if this process has not checked it.
   */
  function authenticateInGracePeriod(token: string): Principal | null | undefined {
    const id = keyIdIn(token);
    const cached = id === null ? undefined : cache.peek(id, gracePeriod);
    if (!cached) return undefined;
    const { principal, good } = cached.record;
    const hasExpired = principal.expiresAt !== undefined && principal.expiresAt.getTime() <= Date.now();
    return good && !hasExpired && isRight(token, cached) ? principal : null;
  }

  return {
    authenticate,
    authenticateById,
    authenticateCached,
    authenticateInGracePeriod,
    created: cache.created,
    /** Call it when this process has changed the key: what is cached is out of date. */
    changed: cache.forget,
    /** Call it when this process has revoked the key. */
    revoked: (id: string, record: KeyRecord) => cache.keep(id, { record, since: performance.now() }),
  };
}

/** How long a model call waits for the database to check a known key again. Milliseconds. */
const longestCheck = 1_000;
/** How long any other request waits; it needs the rest of its time for its own work. Milliseconds. */
const longestLookUp = 1_500;

/** Says whose key a token is; `null` if it is unknown, expired or revoked. */
export type AuthenticateKey = (token: string, isModelCall: boolean) => Promise<Principal | null>;

/**
 * Authenticates by keys. While the database is unavailable, model calls continue with keys that were checked within the grace period.
 * Everything else needs the database anyway.
 */
export function createAuthenticateKey(
  keys: Pick<KeyVerifier, 'authenticate' | 'authenticateCached' | 'authenticateInGracePeriod'>,
  database: Pick<DatabaseAccess, 'isUnavailable' | 'run'>,
): AuthenticateKey {
  return async function authenticateKey(token, isModelCall) {
    const lastPrincipal = isModelCall ? keys.authenticateInGracePeriod(token) : undefined;
    if (lastPrincipal === null || (lastPrincipal && database.isUnavailable)) return lastPrincipal;
    const cached = keys.authenticateCached(token);
    if (cached !== undefined) return cached;
    try {
      return await database.run(() => keys.authenticate(token), lastPrincipal ? longestCheck : longestLookUp);
    } catch (error) {
      if (lastPrincipal && isUnavailableError(error)) return lastPrincipal;
      throw error;
    }
  };
}

/** `emg_`, the 26 characters of the key's id, `_`, and 256 random bits in base64url. */
const form = /^emg_[0-9a-z]{26}_[A-Za-z0-9_-]{43}$/;
const secretLength = '_'.length + 43;
const length = 'emg_'.length + 26 + secretLength;

/** The text of a new key with this id. Only its owner has it: it is not stored. */
export function newKeyText(id: string): string {
  return `emg_${id.slice('key_'.length)}_${randomBytes(32).toString('base64url')}`;
}

/** The id in a key text; `null` if it is no key text. */
function keyIdIn(token: string): string | null {
  if (typeof token !== 'string' || token.length !== length) return null;
  return form.test(token) ? `key_${token.slice('emg_'.length, -secretLength)}` : null;
}

/** SHA-256 of the whole text. */
export function digestOf(token: string): Buffer {
  return hash('sha256', token, 'buffer');
}

/**
 * @param good whether the key may be used, by the database's clock
 * @param accountBudgets those of its account
 */
export function toRecord(
  { _id, hash, userId, scopes, models, budgets = [], expiresAt }: KeyDocument,
  good: boolean,
  accountBudgets: readonly Budget[] = [],
): KeyRecord {
  const principal = {
    userId,
    keyId: _id,
    scopes,
    ...(models && { models }),
    ...(budgets.length > 0 && { budgets }),
    ...(accountBudgets.length > 0 && { accountBudgets }),
    ...(expiresAt && { expiresAt }),
  };
  return { digest: Buffer.from(hash, 'hex'), principal, good };
}

/** A key as it is read, with the budgets of its account. */
type FoundKey = KeyDocument & { readonly good: boolean; readonly account: readonly { budgets?: Budget[] }[] };

/**
 * Reads the records of keys. Look-ups at the same moment share a query, so that a flood of random keys stays cheap.
 * Rejects with a TimeoutError if it is not certain that there is no such key.
 * @param accountBudgets the name of the collection of the budgets of accounts
 */
export function createLookUp(
  keys: KeyModel,
  readConfirmed: ReadConfirmed,
  accountBudgets: string,
): (id: string) => Promise<KeyRecord | null> {
  const collection = durableCollection(keys);
  const fields = { hash: 1, userId: 1, scopes: 1, models: 1, budgets: 1, expiresAt: 1, good } as const;
  const lookUps = createBatcher<string, KeyRecord | null>({
    maxSize: 500,
    concurrency: 2,
    timeout: 10_000,
    async write(ids) {
      const pipeline = [
        { $match: { _id: { $in: [...new Set(ids)] } } },
        { $project: fields },
        { $lookup: { from: accountBudgets, localField: 'userId', foreignField: '_id', as: 'account' } },
      ];
      const documents = await collection.aggregate<FoundKey>(pipeline, inOneBatch).toArray();
      const byId = new Map(documents.map((key) => [key._id, toRecord(key, key.good, key.account[0]?.budgets)]));
      return ids.map((id) => byId.get(id) ?? null);
    },
  });
  return (id) => readConfirmed(id, () => lookUps.add(id));
}

export interface LastUsedOptions {
  /** Writes the current time for these keys. */
  readonly write: (ids: readonly string[]) => Promise<void>;
  readonly onFailure: (error: unknown) => void;
  /** How long uses are gathered before they are written. Milliseconds. @default 1_000 */
  readonly delay?: number;
  /** The least time between two recorded uses of a key. Milliseconds. @default 60_000 */
  readonly interval?: number;
}

/**
 * Records when keys were used, in batches, without delaying any request. Each key is recorded at most once in the interval; a use that
 * cannot be written is lost.
 */
export function createLastUsed({ write, onFailure, delay = 1_000, interval = 60_000 }: LastUsedOptions) {
  const notedAt = new Map<string, number>();
  let waiting: string[] = [];
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> = Promise.resolve();

  function forgetOld(now: number): void {
    for (const [id, at] of notedAt) if (now - at >= interval) notedAt.delete(id);
  }

  function flush(): void {
    clearTimeout(timer);
    timer = undefined;
    const ids = waiting;
    waiting = [];
    forgetOld(performance.now());
    if (ids.length > 0) writing = Promise.all([writing, writeAll(ids)]).then(() => {});
  }

  async function writeAll(ids: readonly string[]): Promise<void> {
    const outcomes = await writeIsolated(ids, {
      async write(part) {
        await write(part);
        return [];
      },
    });
    const failed = outcomes.find((outcome) => 'error' in outcome);
    if (failed) onFailure(failed.error);
  }

  return {
    /** A key was used just now. */
    note(id: string): void {
      const now = performance.now();
      const before = notedAt.get(id);
      if (before !== undefined && now - before < interval) return;
      notedAt.set(id, now);
      waiting.push(id);
      timer ??= setTimeout(flush, delay).unref();
    },
    /** Writes the uses that wait. */
    async close(): Promise<void> {
      flush();
      await writing;
    },
  };
}

/** What decides whether a key's bearer may call. */
export interface KeyRecord {
  /** SHA-256 of the key's text. */
  readonly digest: Buffer;
  /** Whose key it is. */
  readonly principal: Principal;
  /** Whether it was neither revoked nor expired. */
  readonly good: boolean;
}

/** A record, and when its look-up began: the record was true then or later. */
interface CachedKey {
  readonly record: KeyRecord;
  /** Milliseconds of `performance.now()`. */
  readonly since: number;
}

export interface KeyCacheOptions {
  readonly read: (id: string) => Promise<KeyRecord | null>;
  /** How long a record is used, from the moment its look-up began. Milliseconds. */
  readonly ttl: number;
  /** The most records in the cache, and the most unknown ids besides. */
  readonly capacity: number;
}

/** Puts an entry at the end of a cache, and drops the first one if there are too many. */
function remember<T>(entries: Map<string, T>, id: string, entry: T, capacity: number): void {
  entries.delete(id);
  entries.set(id, entry);
  if (entries.size > capacity) entries.delete(entries.keys().next().value as string);
}

/** A record that is used after this part of its `ttl` is read again beside that, so that the next user need not wait. */
const renewedAfter = 2 / 3;

/**
 * Recently used keys, so that a busy key costs one look-up per two thirds of the `ttl` and process. Bounded; a dropped record is read again.
 * Ids of no key are cached for the same time, but separately, so that a flood of unknown keys drops no good one. It counts a record's age
 * from the start of its look-up and still has old ones, for the grace period, where lru-cache counts from its end and drops them.
 */
function createKeyCache({ read, ttl, capacity }: KeyCacheOptions) {
  const records = new Map<string, CachedKey>();
  /** The start of the look-up that found no key, by id. */
  const unknown = new Map<string, number>();
  const reading = new Map<string, { readonly since: number; readonly found: Promise<CachedKey | null> }>();

  const isFresh = (since: number, maxAge = ttl) => performance.now() - since < maxAge;

  /** The cached record, unless it is too old. */
  function peek(id: string, maxAge = ttl): CachedKey | undefined {
    const cached = records.get(id);
    return cached && isFresh(cached.since, maxAge) ? cached : undefined;
  }

  function keep(id: string, cached: CachedKey): void {
    const present = records.get(id);
    if (!present || present.since < cached.since) remember(records, id, cached, capacity);
  }

  /** The look-up under way, or a new one. */
  function lookUp(id: string): Promise<CachedKey | null> {
    const running = reading.get(id);
    // do not join a look-up that hangs: it may have read an old state
    if (running && isFresh(running.since)) return running.found;
    const since = performance.now();
    // a newer look-up may run, or the key was created or changed meanwhile
    const isLatest = () => reading.get(id)?.found === found;
    const found = read(id)
      .then((record) => {
        const cached = record && { record, since };
        if (!isLatest()) return cached;
        if (!cached) remember(unknown, id, since, capacity);
        else if (records.has(id)) keep(id, cached);
        return cached;
      })
      .finally(() => {
        if (isLatest()) reading.delete(id);
      });
    reading.set(id, { since, found });
    return found;
  }

  return {
    peek,
    /** The cached record, or what a look-up finds; `null` if there is no such key. */
    async find(id: string): Promise<CachedKey | null> {
      const cached = peek(id);
      if (cached) return cached;
      return isFresh(unknown.get(id) ?? Number.NEGATIVE_INFINITY) ? null : lookUp(id);
    },
    /** Looks a cached key up beside its use if its record is to be renewed. */
    renew(id: string, { since }: CachedKey): void {
      // without an answer, the record serves for the rest of its time
      if (!isFresh(since, renewedAfter * ttl)) lookUp(id).catch(() => {});
    },
    /** Caches a record unless a newer one is cached. Call it only for the right secret, so that wrong keys cannot fill the cache. */
    keep,
    /** Call it when this process has created the key: an earlier read that found nothing is out of date. */
    created(id: string): void {
      unknown.delete(id);
      reading.delete(id);
    },
    /** Drops what is cached of a key. */
    forget(id: string): void {
      records.delete(id);
      reading.delete(id);
    },
  };
}
