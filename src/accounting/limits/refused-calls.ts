import { duplicatesIn } from '../../mongo/writes/duplicate-key.ts';
import { createSetAsideLog, isItemFailure } from '../../mongo/writes/item-failure.ts';
import { writeIsolated } from '../../mongo/writes/write-isolated.ts';
import type { Logger } from '../../options/options.ts';
import type { ExceededModel } from './model.ts';

/** Calls of one key that were refused. */
export interface RefusedCalls {
  readonly userId: string;
  readonly apiKeyId: string | null;
  /** The limit: requests or tokens in the limiter's own period. */
  readonly limit: number;
  readonly count: number;
  /** Milliseconds since 1970. */
  readonly at: number;
}

export interface RefusedCallCounterDeps {
  readonly exceeded: ExceededModel;
  /** This process, `wrk_…`. */
  readonly owner: string;
  /** Milliseconds. */
  readonly window: number;
  /** How long counts are gathered before they are written together. A kill loses this much. Milliseconds. */
  readonly flushInterval: number;
  readonly logger: Logger;
}

/** Counts refused calls by key and window, and writes the counts in groups. */
export interface RefusedCallCounter {
  add(refused: RefusedCalls): void;
  /** Writes all counts. Rejects when the database does not accept them; they are then kept and written later. */
  flush(): Promise<void>;
  /** Writes all counts, if the database accepts them. */
  close(): Promise<void>;
}

interface Entry {
  readonly refused: Omit<RefusedCalls, 'count' | 'at'>;
  readonly start: number;
  count: number;
  written: number;
}

/** An entry, and its id. */
type Counted = readonly [string, Entry];

export function createRefusedCallCounter({
  exceeded,
  owner,
  window,
  flushInterval,
  logger,
}: RefusedCallCounterDeps): RefusedCallCounter {
  const logSetAside = createSetAsideLog(logger, 'refused calls cannot be counted and were left out');
  let entries = new Map<string, Entry>();
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> | undefined;

  function startOf(at: number): number {
    return Math.floor(at / window) * window;
  }

  function note(start: number, refused: Entry['refused'], count: number): void {
    const id = JSON.stringify([start, refused.userId, refused.apiKeyId]);
    const entry = entries.get(id);
    if (entry) entry.count += count;
    else entries.set(id, { refused, start, count, written: 0 });
    timer ??= setTimeout(() => void attempt(), flushInterval).unref();
  }

  /** The window was closed before its last counts were written: they go into the next window that can still be open. */
  async function carryOver(id: string, entry: Entry): Promise<void> {
    const found = await exceeded.findById(id).lean();
    entries.delete(id);
    const missing = entry.count - (found?.counts[owner] ?? 0);
    if (missing > 0) note(Math.max(startOf(Date.now()), entry.start + window), entry.refused, missing);
  }

  function toOperation([_id, { refused, start, count }]: Counted) {
    return {
      updateOne: {
        filter: { _id, state: 'open' as const },
        update: {
          $max: { [`counts.${owner}`]: count },
          $setOnInsert: {
            ...refused,
            windowStart: new Date(start),
            windowEnd: new Date(start + window),
          },
        },
        upsert: true,
      },
    };
  }

  /** Each process writes its own total, so that a batch with an unknown outcome can be written again. */
  async function write(): Promise<void> {
    const batch = [...entries].filter(([, { count, written }]) => count > written);
    const counts = batch.map(([, { count }]) => count);
    const outcomes = await writeIsolated<Counted, 'closed' | 'written'>(batch, {
      async write(part) {
        // a duplicate: the window of that one is closed
        const writing = exceeded.bulkWrite(part.map(toOperation), { ordered: false });
        const closed = await writing.then(() => new Set<number>(), duplicatesIn);
        return part.map((_, i) => (closed.has(i) ? 'closed' : 'written'));
      },
    });
    let failure: { readonly error: unknown } | undefined;
    for (const [i, outcome] of outcomes.entries()) {
      const [id, entry] = batch[i] as Counted;
      if ('error' in outcome) {
        if (isItemFailure(outcome.error)) {
          entries.delete(id);
          logSetAside(outcome.error);
        } else failure = outcome;
      } else if (outcome.result === 'closed') await carryOver(id, entry);
      else entry.written = counts[i] as number;
    }
    if (failure) throw failure.error;
    forgetPast();
  }

  function forgetPast(): void {
    const present = Date.now() - 2 * window;
    entries = new Map([...entries].filter(([, { start, count, written }]) => count > written || start > present));
  }

  async function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    await writing?.catch(() => {});
    writing = write().finally(() => {
      writing = undefined;
    });
    try {
      await writing;
    } catch (error) {
      timer ??= setTimeout(() => void attempt(), flushInterval).unref();
      throw error;
    }
  }

  async function attempt(): Promise<void> {
    await flush().catch((error) => {
      logger.warn('refused calls could not be counted and will be tried again', { reason: String(error) });
    });
  }

  return {
    add({ count, at, ...refused }) {
      // calls that are reported late count in the window before, which may still be open
      const present = Date.now();
      note(startOf(Math.min(present, Math.max(at, startOf(present) - window))), refused, count);
    },
    flush,
    async close() {
      await attempt();
      clearTimeout(timer);
    },
  };
}
