import { timingSafeEqual } from 'node:crypto';
import type { Principal } from '../../http/principal.ts';
import { type CachedKey, createKeyCache, type KeyCacheOptions, type KeyRecord } from './key-cache.ts';
import { digestOf, keyIdIn } from './key-text.ts';

export interface KeyVerifierDeps {
  /** Reads a key's record; `null` if there is none. */
  readonly read: KeyCacheOptions['read'];
  /** How long a record is used without reading it again. Milliseconds. */
  readonly cacheTtl: number;
  /** The most records in the cache. */
  readonly cacheCapacity: number;
  /** How long a record serves `authenticateInGracePeriod`. Milliseconds. */
  readonly gracePeriod: number;
  /** Called for each use of a good key. */
  readonly onUse: (id: string) => void;
}

/** Says whose key a token is. */
export interface KeyVerifier {
  /** Whose key it is; `null` if it is malformed (this needs no database), unknown, wrong, expired or revoked. */
  authenticate(token: string): Promise<Principal | null>;
  /** The same without the database; `undefined` if only the database knows. */
  authenticateCached(token: string): Principal | null | undefined;
  /**
   * Whose key it was when this process last checked it, at most the grace period ago. For use while the database is
   * unavailable. `null` if it was not good then, or has expired since; `undefined` if this process has not checked it.
   */
  authenticateInGracePeriod(token: string): Principal | null | undefined;
  /** Call it when this process has created the key: an earlier look-up that found nothing is out of date. */
  created(id: string): void;
  /** Call it when this process has changed the key: what is cached is out of date. */
  changed(id: string): void;
  /** Call it when this process has revoked the key. */
  revoked(id: string, record: KeyRecord): void;
}

export function createKeyVerifier(deps: KeyVerifierDeps): KeyVerifier {
  const { cacheTtl: ttl, cacheCapacity: capacity, gracePeriod, onUse } = deps;
  const cache = createKeyCache({ read: deps.read, ttl, capacity });

  /** The tokens that match the cached record of their key: a busy key is hashed once per record. */
  const proven = new Map<string, CachedKey>();

  function isRight(token: string, cached: CachedKey): boolean {
    if (proven.get(token) === cached) return true;
    if (!timingSafeEqual(cached.record.digest, digestOf(token))) return false;
    if (proven.size >= capacity) proven.clear();
    proven.set(token, cached);
    return true;
  }

  function judge(id: string, token: string, cached: CachedKey | null): Principal | null {
    if (!cached || !isRight(token, cached)) return null;
    cache.keep(id, cached);
    if (!cached.record.good) return null;
    onUse(id);
    return cached.record.principal;
  }

  async function authenticate(token: string): Promise<Principal | null> {
    const id = keyIdIn(token);
    return id === null ? null : judge(id, token, await cache.find(id));
  }

  function authenticateCached(token: string): Principal | null | undefined {
    const id = keyIdIn(token);
    if (id === null) return null;
    const cached = cache.peek(id);
    return cached && judge(id, token, cached);
  }

  function authenticateInGracePeriod(token: string): Principal | null | undefined {
    const id = keyIdIn(token);
    const cached = id === null ? undefined : cache.last(id);
    if (!cached || performance.now() - cached.since >= gracePeriod) return undefined;
    const { principal, good } = cached.record;
    const hasExpired = principal.expiresAt !== undefined && principal.expiresAt.getTime() <= Date.now();
    return good && !hasExpired && isRight(token, cached) ? principal : null;
  }

  return {
    authenticate,
    authenticateCached,
    authenticateInGracePeriod,
    created: cache.created,
    changed: cache.forget,
    revoked: (id, record) => cache.keep(id, { record, since: performance.now() }),
  };
}
