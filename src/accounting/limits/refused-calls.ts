import { createSetAsideLog, itemFailures, writeIsolated } from '../../mongo/batcher.ts';
import { duplicatesIn } from '../../mongo/writes.ts';
import type { Logger } from '../../options/options.ts';
import type { ExceededModel } from './model.ts';
import { type RefusedCallCount, RefusedCallCounts, type RefusedCalls } from './refused-call-counts.ts';

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
  /** Writes all counts. Rejects if the database does not accept them; they are then kept and written later. */
  flush(): Promise<void>;
  /** Writes all counts, if the database accepts them. */
  close(): Promise<void>;
}

/** A count as it was when its write began. */
interface WrittenCount {
  readonly entry: RefusedCallCount;
  readonly count: number;
}

function toOperation({ entry: { id, key, start }, count }: WrittenCount, owner: string, window: number) {
  return {
    updateOne: {
      filter: { _id: id, state: 'open' as const },
      update: {
        $max: { [`counts.${owner}`]: count },
        $setOnInsert: { ...key, windowStart: new Date(start), windowEnd: new Date(start + window) },
      },
      upsert: true,
    },
  };
}

type WriteCounts = (counts: RefusedCallCounts) => Promise<void>;

/** Makes the function that writes counts. Each process writes its own total, so a write whose outcome is unknown can be repeated. */
function createWriteCounts(deps: Omit<RefusedCallCounterDeps, 'flushInterval'>): WriteCounts {
  const { exceeded, owner, window, logger } = deps;
  const logSetAside = createSetAsideLog(logger, 'refused calls cannot be counted and were left out');

  async function write(part: readonly WrittenCount[]): Promise<(WrittenCount & { readonly isClosed: boolean })[]> {
    const operations = part.map((entry) => toOperation(entry, owner, window));
    // a duplicate: that window is closed
    const closed = await exceeded.bulkWrite(operations, { ordered: false }).then(() => new Set<number>(), duplicatesIn);
    return part.map((entry, i) => ({ ...entry, isClosed: closed.has(i) }));
  }

  return async function writeCounts(counts) {
    const batch = counts.unwritten().map((entry) => ({ entry, count: entry.count }));
    const outcomes = await writeIsolated(batch, { write });
    for (const outcome of outcomes) {
      if ('error' in outcome) continue;
      const { entry, count, isClosed } = outcome.result;
      if (isClosed) {
        const stored = await exceeded.findById(entry.id).lean();
        counts.carryOver(entry, stored?.counts[owner] ?? 0);
      } else entry.writtenCount = count;
    }
    for (const [{ entry }, error] of itemFailures(batch, outcomes)) {
      counts.delete(entry);
      logSetAside(error);
    }
    counts.forgetPast();
  };
}

export function createRefusedCallCounter(deps: RefusedCallCounterDeps): RefusedCallCounter {
  const { window, flushInterval, logger } = deps;
  const counts = new RefusedCallCounts(window);
  const writeCounts = createWriteCounts(deps);
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> | undefined;

  function schedule(): void {
    timer ??= setTimeout(() => void tryFlush(), flushInterval).unref();
  }

  async function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    await writing?.catch(() => {});
    writing = writeCounts(counts).finally(() => {
      writing = undefined;
    });
    try {
      await writing;
    } finally {
      // what could not be written, and what was carried over
      if (counts.unwritten().length > 0) schedule();
    }
  }

  async function tryFlush(): Promise<void> {
    await flush().catch((error) => {
      logger.warn('refused calls could not be counted and will be tried again', { reason: String(error) });
    });
  }

  return {
    add(refused) {
      counts.add(refused);
      schedule();
    },
    flush,
    async close() {
      await tryFlush();
      clearTimeout(timer);
    },
  };
}
