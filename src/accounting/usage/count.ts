import { durableCollection } from '../../mongo/collection.ts';
import { createPeriodic, type Periodic } from '../../mongo/periodic.ts';
import type { RunInTransaction } from '../../mongo/transaction.ts';
import { isDuplicateKey } from '../../mongo/writes/duplicate-key.ts';
import { createSetAsideLog, isItemFailure } from '../../mongo/writes/item-failure.ts';
import { writeIsolated } from '../../mongo/writes/write-isolated.ts';
import type { Logger } from '../../options/options.ts';
import { type CountBatchDeps, CountedByOthers, createCountBatch, type UsageFilter } from './count-batch.ts';
import type { CountedRecord } from './sums.ts';

/** The most records that are kept; beyond that all are dropped, and read from the database. */
const maxRecentRecords = 20_000;

/**
 * The records that this process has written and not counted yet, so that almost none has to be read back. Only a shortcut:
 * the database knows which are counted.
 */
export class RecentUsage {
  #records: CountedRecord[] = [];
  #isTaken = false;

  /** Keeps records from now on. */
  open(): void {
    this.#isTaken = true;
  }

  add(records: readonly CountedRecord[]): void {
    if (!this.#isTaken) return;
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
  /** Told of records when what was charged for them is committed. @default nobody is told */
  readonly charged?: (records: readonly CountedRecord[]) => void;
  /** The records that this process writes itself, which it counts first. @default none */
  readonly recentUsage?: Pick<RecentUsage, 'take'>;
  /** How long records are left to the process that wrote them. Milliseconds. @default 0 */
  readonly maxWait?: number;
}

/** Adds records that have ended to the counters; resolves to how many. There may be more where it is `batchSize` or more. */
export type Count = () => Promise<number>;

const byId = { _id: 1 } as const;

/** Longer than a transaction is retried. Milliseconds. */
const longestCount = 150_000;

/** Counts records batch by batch. Records that cannot be counted are set aside, so that the others are counted. */
export function createCount(deps: CountDeps): Count {
  const { transaction, recentUsage, maxWait = 0, batchSize } = deps;
  const usage = durableCollection(deps.usage);
  const batch = createCountBatch(deps);
  const logSetAside = createSetAsideLog(deps.logger, 'usage records cannot be counted and were set aside');
  /** The newest record that waited at the last look: this process may count what comes before it. */
  let newest: string | undefined;
  let lookedAt = Number.NEGATIVE_INFINITY;

  const countFound = async (filter: UsageFilter) => noted(await transaction((session) => batch.found(filter, session)));

  /** Takes a record that cannot be counted out of the way: you find it by `uncountable`, repair it and set `counted: false`. */
  async function setAside(_id: string, error: unknown): Promise<void> {
    await usage.updateOne({ _id, counted: false }, { $set: { uncountable: true }, $unset: { counted: 1 } });
    logSetAside(error, { id: _id });
  }

  /** Counts what the filter finds, and sets aside what cannot be counted. */
  async function countIsolated(filter: UsageFilter): Promise<number> {
    const options = { projection: { _id: 1 }, sort: byId, limit: batchSize } as const;
    const ids = (await usage.find(filter, options).toArray()).map(({ _id }) => _id);
    const outcomes = await writeIsolated(ids, {
      timeout: longestCount,
      async write(part) {
        await countFound({ _id: { $in: [...part] }, counted: false });
        return [];
      },
    });
    for (const [i, outcome] of outcomes.entries()) {
      if ('result' in outcome) continue;
      if (!isItemFailure(outcome.error)) throw outcome.error;
      await setAside(ids[i] as string, outcome.error);
    }
    return ids.length;
  }

  /** Most often no other process has counted these records, and they need not be read back. */
  async function countOwn(records: readonly CountedRecord[]): Promise<number> {
    const left = { _id: { $in: records.map(({ _id }) => _id) }, counted: false };
    try {
      return noted(await transaction((session) => (session ? batch.own(records, session) : batch.found(left))));
    } catch (error) {
      if (isItemFailure(error)) return countIsolated(left);
      const isOvertaken = error instanceof CountedByOthers || isDuplicateKey(error);
      if (!isOvertaken) throw error;
      return countFound(left);
    }
  }

  async function countLeft(left: UsageFilter): Promise<number> {
    try {
      return await countFound(left);
    } catch (error) {
      if (!isItemFailure(error)) throw error;
      return countIsolated(left);
    }
  }

  /** Counts records of processes that do not count, or have died. */
  async function countAbandoned(): Promise<number> {
    const now = performance.now();
    if (now - lookedAt < maxWait) return 0;
    const left = { counted: false, ...(maxWait > 0 && { _id: { $lte: newest ?? '' } }) };
    // most often there is nothing to count: that needs no transaction, and no query when nothing waited before
    const isNone = maxWait > 0 && newest === undefined;
    const isAny = !isNone && (await usage.findOne(left, { projection: { _id: 1 } })) !== null;
    const counted = isAny ? await countLeft(left) : 0;
    if (counted === batchSize || maxWait === 0) return counted;
    lookedAt = now;
    newest = (await usage.findOne({ counted: false }, { projection: { _id: 1 }, sort: { _id: -1 } }))?._id;
    return counted;
  }

  function noted(records: readonly CountedRecord[]): number {
    deps.charged?.(records);
    return records.length;
  }

  return async function count() {
    const own = recentUsage?.take(batchSize) ?? [];
    const counted = own.length > 0 ? await countOwn(own) : 0;
    return counted + (await countAbandoned());
  };
}

export interface CountingDeps {
  readonly count: Count;
  /** How many records one count can add. */
  readonly batchSize: number;
  /** Milliseconds. */
  readonly interval: number;
  readonly logger: Logger;
}

/** Counts again and again; at once when one count was not enough. */
export function createCounting({ count, batchSize, interval, logger }: CountingDeps): Periodic {
  async function task(): Promise<void> {
    try {
      if ((await count()) >= batchSize) counting.hurry();
    } catch (error) {
      // another process has inserted the same counter at the same moment: the next run finds it
      if (!isDuplicateKey(error)) throw error;
    }
  }

  const counting = createPeriodic({ name: 'counting usage', task, interval, longestRun: longestCount, logger });
  return counting;
}
