import { createSetAsideLog, isItemFailure, itemFailures, writeIsolated } from '../mongo/batcher.ts';
import { durableCollection } from '../mongo/collection.ts';
import { createPeriodic, type Periodic } from '../mongo/periodic.ts';
import type { RunInTransaction } from '../mongo/transaction.ts';
import { isDuplicateKey } from '../mongo/writes.ts';
import type { Logger } from '../options/options.ts';
import { type CountBatchDeps, CountedByOthers, createCountBatch, type UsageFilter } from './count-batch.ts';
import type { CountedRecord } from './sums.ts';

/** The most records in memory; if there are more, all are dropped, and read from the database later. */
const maxRecentRecords = 20_000;

/**
 * The records that this process has written and not counted yet, so that it need not read most of them back. This is only a
 * shortcut: the database decides which are counted.
 */
export class RecentUsage {
  #records: CountedRecord[] = [];
  #isOpen = false;

  /** Keeps records from now on. */
  open(): void {
    this.#isOpen = true;
  }

  add(records: readonly CountedRecord[]): void {
    if (!this.#isOpen) return;
    if (this.#records.length + records.length > maxRecentRecords) this.#records = [];
    this.#records.push(...records);
  }

  /** Takes out the oldest records. */
  take(limit: number): CountedRecord[] {
    return this.#records.splice(0, limit);
  }
}

export interface CountDeps extends CountBatchDeps {
  readonly transaction: RunInTransaction;
  /** Called with records when the charges for them are committed. */
  readonly charged?: (records: readonly CountedRecord[]) => void;
  /** The records that this process has written, which it counts first. @default none */
  readonly recentUsage?: Pick<RecentUsage, 'take'>;
  /** How long the process that wrote a record may take to count it, before this one does. Milliseconds. @default 0 */
  readonly maxWait?: number;
}

/** Counts records of ended calls; resolves to how many. If it is `batchSize` or more, there may be more to count. */
export type Count = () => Promise<number>;

/** Longer than a transaction is retried. Milliseconds. */
const longestCount = 150_000;

/** Counts records batch by batch. Sets aside records that cannot be counted, so that it can count the others. */
export function createCount(deps: CountDeps): Count {
  const { transaction, recentUsage, maxWait = 0, batchSize } = deps;
  const usage = durableCollection(deps.usage);
  const batch = createCountBatch(deps);
  const logSetAside = createSetAsideLog(deps.logger, 'usage records cannot be counted and were set aside');
  /** The newest uncounted record at the last look: this process may count the records up to it. */
  let newest: string | undefined;
  let lookedAt = Number.NEGATIVE_INFINITY;

  function reportCharged(records: readonly CountedRecord[]): number {
    deps.charged?.(records);
    return records.length;
  }

  async function countFound(filter: UsageFilter): Promise<number> {
    return reportCharged(await transaction((session) => batch.found(filter, session)));
  }

  /** To repair such a record, find it by `uncountable`, correct it and set `counted: false`. */
  async function setAside(_id: string, error: unknown): Promise<void> {
    await usage.updateOne({ _id, counted: false }, { $set: { uncountable: true }, $unset: { counted: 1 } });
    logSetAside(error, { id: _id });
  }

  /** Counts the records that the filter finds, and sets aside those that cannot be counted; resolves to how many it has found. */
  async function countIsolated(filter: UsageFilter): Promise<number> {
    const options = { projection: { _id: 1 }, sort: { _id: 1 }, limit: batchSize } as const;
    const ids = (await usage.find(filter, options).toArray()).map(({ _id }) => _id);
    const outcomes = await writeIsolated(ids, {
      timeout: longestCount,
      async write(part) {
        await countFound({ _id: { $in: [...part] }, counted: false });
        return [];
      },
    });
    for (const [id, error] of itemFailures(ids, outcomes)) await setAside(id, error);
    return ids.length;
  }

  /** Usually no other process has counted these records, and they need not be read back. */
  async function countRecent(records: readonly CountedRecord[]): Promise<number> {
    const filter = { _id: { $in: records.map(({ _id }) => _id) }, counted: false };
    try {
      return reportCharged(
        await transaction((session) => (session ? batch.recent(records, session) : batch.found(filter))),
      );
    } catch (error) {
      if (isItemFailure(error)) return countIsolated(filter);
      const isOvertaken = error instanceof CountedByOthers || isDuplicateKey(error);
      if (!isOvertaken) throw error;
      return countFound(filter);
    }
  }

  async function countOrSetAside(filter: UsageFilter): Promise<number> {
    try {
      return await countFound(filter);
    } catch (error) {
      if (!isItemFailure(error)) throw error;
      return countIsolated(filter);
    }
  }

  /** Counts records whose process does not count, or has died. */
  async function countAbandoned(): Promise<number> {
    const now = performance.now();
    if (now - lookedAt < maxWait) return 0;
    const filter = { counted: false, ...(maxWait > 0 && { _id: { $lte: newest ?? '' } }) };
    // usually there is nothing to count: that needs no transaction, and no query if nothing waited before
    const isNone = maxWait > 0 && newest === undefined;
    const isAny = !isNone && (await usage.findOne(filter, { projection: { _id: 1 } })) !== null;
    const counted = isAny ? await countOrSetAside(filter) : 0;
    if (counted === batchSize || maxWait === 0) return counted;
    lookedAt = now;
    newest = (await usage.findOne({ counted: false }, { projection: { _id: 1 }, sort: { _id: -1 } }))?._id;
    return counted;
  }

  return async function count() {
    const recent = recentUsage?.take(batchSize) ?? [];
    const counted = recent.length > 0 ? await countRecent(recent) : 0;
    return counted + (await countAbandoned());
  };
}

export interface CountingDeps {
  readonly count: Count;
  /** The most records that one run counts. */
  readonly batchSize: number;
  /** Milliseconds. */
  readonly interval: number;
  readonly logger: Logger;
}

/** Counts at every interval, and again at once if a run may have left records. */
export function createCounting({ count, batchSize, interval, logger }: CountingDeps): Periodic {
  async function task(): Promise<void> {
    try {
      if ((await count()) >= batchSize) counting.runNow();
    } catch (error) {
      // another process inserted the same counter at the same moment: the next run finds it
      if (!isDuplicateKey(error)) throw error;
    }
  }

  const counting = createPeriodic({ name: 'counting usage', task, interval, longestRun: longestCount, logger });
  return counting;
}
