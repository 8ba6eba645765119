import type { Principal } from '../http/principal.ts';

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
export interface CachedKey {
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

/** Recently used keys, so that a busy key costs one look-up per `ttl` and process. */
export interface KeyCache {
  /** The cached record, unless it is too old. */
  peek(id: string): CachedKey | undefined;
  /** The cached record, however old. */
  last(id: string): CachedKey | undefined;
  /** The cached record, or the look-up under way, or a new look-up; `null` if there is no such key. */
  find(id: string): Promise<CachedKey | null>;
  /**
   * Caches a record unless a newer one is cached. Call it only for the right secret, so that wrong keys cannot fill the
   * cache.
   */
  keep(id: string, cached: CachedKey): void;
  /** Call it when this process has created the key: an earlier read that found nothing is out of date. */
  created(id: string): void;
  /** Drops what is cached of a key. */
  forget(id: string): void;
}

function dropOldest(entries: Map<string, unknown>, capacity: number): void {
  if (entries.size <= capacity) return;
  for (const oldest of entries.keys()) {
    entries.delete(oldest);
    return;
  }
}

/**
 * A bounded cache; a dropped record is read again. Ids of no key are cached for the same time, but separately, so that a flood of
 * unknown keys drops no good one. It counts a record's age from the start of its look-up and still has old ones, for `last`, where
 * lru-cache counts from its end and drops them.
 */
export function createKeyCache({ read, ttl, capacity }: KeyCacheOptions): KeyCache {
  const records = new Map<string, CachedKey>();
  /** The start of the look-up that found no key, by id. */
  const unknown = new Map<string, number>();
  const reading = new Map<string, { readonly since: number; readonly lookUp: Promise<CachedKey | null> }>();

  const isFresh = (since: number) => performance.now() - since < ttl;

  function keepUnknown(id: string, since: number): void {
    unknown.delete(id);
    unknown.set(id, since);
    dropOldest(unknown, capacity);
  }

  function isUnknown(id: string): boolean {
    const since = unknown.get(id);
    return since !== undefined && isFresh(since);
  }

  function startReading(id: string): Promise<CachedKey | null> {
    const since = performance.now();
    const lookUp = read(id)
      .then((record) => {
        if (record) return { record, since };
        // unless a newer look-up runs, or the key was created meanwhile
        if (reading.get(id)?.lookUp === lookUp) keepUnknown(id, since);
        return null;
      })
      .finally(() => {
        if (reading.get(id)?.lookUp === lookUp) reading.delete(id);
      });
    reading.set(id, { since, lookUp });
    return lookUp;
  }

  function peek(id: string): CachedKey | undefined {
    const cached = records.get(id);
    return cached && isFresh(cached.since) ? cached : undefined;
  }

  return {
    peek,
    last: (id) => records.get(id),
    async find(id) {
      const cached = peek(id);
      if (cached) return cached;
      if (isUnknown(id)) return null;
      const running = reading.get(id);
      // do not join a look-up that hangs: it may have read an old state
      return running && isFresh(running.since) ? running.lookUp : startReading(id);
    },
    keep(id, cached) {
      const present = records.get(id);
      if (present && present.since >= cached.since) return;
      records.delete(id);
      records.set(id, cached);
      dropOldest(records, capacity);
    },
    created(id) {
      unknown.delete(id);
      reading.delete(id);
    },
    forget(id) {
      records.delete(id);
      reading.delete(id);
    },
  };
}
