import type { Principal } from '../http/operation.ts';

/** What a key's bearer is judged by. */
export interface KeyRecord {
  /** SHA-256 of the key's text. */
  readonly digest: Buffer;
  /** Who its bearer is. */
  readonly principal: Principal;
  /** Whether it had not been revoked and had not expired. */
  readonly good: boolean;
}

/** A record, and when reading it began: what it says was true then or later. */
export interface Known {
  readonly record: KeyRecord;
  /** Milliseconds of `performance.now()`. */
  readonly since: number;
}

export interface KeyCacheOptions {
  readonly read: (id: string) => Promise<KeyRecord | null>;
  /** How long a record is believed, in milliseconds from the moment reading it began. */
  readonly ttl: number;
  /** How many records are kept, and besides how many ids that no key has. */
  readonly capacity: number;
}

/** Recently used keys, so that a busy one costs one look-up per `ttl` and process. */
export interface KeyCache {
  /** The record kept, if it is still believed. */
  peek(id: string): Known | undefined;
  /** The record kept, believed or not; what is dropped for want of room is gone. */
  last(id: string): Known | undefined;
  /** The record kept, or else the one being read already, or else a new look-up; `null` where there is no such key. */
  find(id: string): Promise<Known | null>;
  /** Keeps a record unless a newer one is kept. Only for whoever showed the right secret, so that nobody else can fill it. */
  keep(id: string, known: Known): void;
  /** This process has created the key: what was read before says nothing about it. */
  created(id: string): void;
}

function dropOldest(entries: Map<string, unknown>, capacity: number): void {
  if (entries.size <= capacity) return;
  for (const oldest of entries.keys()) {
    entries.delete(oldest);
    return;
  }
}

/**
 * A bounded cache; what it dropped is read again. Ids that no key has are remembered as long as records are, apart from
 * them: a flood of unknown keys pushes out no good one.
 */
export function createKeyCache({ read, ttl, capacity }: KeyCacheOptions): KeyCache {
  const records = new Map<string, Known>();
  /** When reading began that found no key, by id. */
  const unknown = new Map<string, number>();
  const reading = new Map<string, { readonly since: number; readonly known: Promise<Known | null> }>();

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

  function startReading(id: string): Promise<Known | null> {
    const since = performance.now();
    const known = read(id)
      .then((record) => {
        if (record) return { record, since };
        // unless a newer look-up runs, or the key has been created meanwhile
        if (reading.get(id)?.known === known) keepUnknown(id, since);
        return null;
      })
      .finally(() => {
        if (reading.get(id)?.known === known) reading.delete(id);
      });
    reading.set(id, { since, known });
    return known;
  }

  function peek(id: string): Known | undefined {
    const known = records.get(id);
    return known && isFresh(known.since) ? known : undefined;
  }

  return {
    peek,
    last: (id) => records.get(id),
    async find(id) {
      const known = peek(id);
      if (known) return known;
      if (isUnknown(id)) return null;
      const running = reading.get(id);
      // one that hangs is not joined for ever: it may have read what was true long ago
      return running && isFresh(running.since) ? running.known : startReading(id);
    },
    keep(id, known) {
      const present = records.get(id);
      if (present && present.since >= known.since) return;
      records.delete(id);
      records.set(id, known);
      dropOldest(records, capacity);
    },
    created(id) {
      unknown.delete(id);
      reading.delete(id);
    },
  };
}
