import type { ClientSession } from 'mongoose';
import { createSetAsideLog, isItemFailure, itemFailures, writeIsolated } from '../mongo/batcher.ts';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import type { RunInTransaction } from '../mongo/connection/availability.ts';
import { createPeriodic, type Periodic } from '../mongo/periodic.ts';
import { firstMatch, type SharedReads } from '../mongo/shared-reads.ts';
import { isDuplicateKey } from '../mongo/writes.ts';
import type { CreditService } from './credits.ts';
import type { AccountingModels, KeyTotalDocument, UsageDocument, UsageSums } from './model.ts';
import {
  type CountedRecord,
  countedFields,
  counterAdditions,
  increments,
  type KeyTotalAddition,
  keyTotalAdditions,
  keyTotalId,
  periodAdditions,
  summed,
} from './sums.ts';
import { createPublishThresholds, type ThresholdDeps, type ThresholdQuotas } from './thresholds.ts';

/** The most records in memory; if there are more, all are dropped, and read from the database later. */
const maxRecentRecords = 20_000;

/**
 * The records that this process has written and not counted yet, so that it need not read most of them back. This is only a
 * shortcut: the database decides which are counted.
 */
export class RecentUsage {
  readonly #gatherFor: number;
  #records: CountedRecord[] = [];
  #takenAt = Number.NEGATIVE_INFINITY;
  #isOpen = false;

  /** @param gatherFor how long records are gathered after the last were taken. Milliseconds. @default 0 */
  constructor(gatherFor = 0) {
    this.#gatherFor = gatherFor;
  }

  /** Keeps records from now on. */
  open(): void {
    this.#isOpen = true;
  }

  add(records: readonly CountedRecord[]): void {
    if (!this.#isOpen) return;
    if (this.#records.length + records.length > maxRecentRecords) this.#records = [];
    this.#records.push(...records);
  }

  /** Whether there are records that are gathered no longer. */
  get isDue(): boolean {
    return this.#records.length > 0 && performance.now() - this.#takenAt >= this.#gatherFor;
  }

  /** Takes out the oldest records, if they are due. */
  take(limit: number): CountedRecord[] {
    if (!this.isDue) return [];
    // what is left is due at once
    if (this.#records.length <= limit) this.#takenAt = performance.now();
    return this.#records.splice(0, limit);
  }
}

export interface CountDeps
  extends ThresholdDeps,
    Pick<AccountingModels, 'usage' | 'counters' | 'keyTotals'>,
    Partial<Pick<CreditService, 'charge' | 'chargeNew' | 'charged'>> {
  /** `undefined` for none: then no threshold is published. */
  readonly quotas: ThresholdQuotas | undefined;
  /** The most records of one transaction. */
  readonly batchSize: number;
  readonly transaction: RunInTransaction;
  /** The records that this process has written, which it counts first. @default none */
  readonly recentUsage?: Pick<RecentUsage, 'take'>;
  /** How long the process that wrote a record may take to count it, before this one does. Milliseconds. @default 0 */
  readonly maxWait?: number;
  /** Reads that the look for such records goes with. */
  readonly shared: Pick<SharedReads, 'join'>;
}

/** Longer than a transaction is retried. Milliseconds. */
const longestCount = 150_000;

/** If it takes longer to look for such records, they are looked for again. Milliseconds. */
const longestLook = 10_000;

/**
 * Makes the function that counts records of ended calls; it resolves to how many. If it is `batchSize` or more, there may be more to count.
 * Sets aside records that cannot be counted, so that it can count the others.
 */
export function createCount(deps: CountDeps) {
  const { transaction, recentUsage, maxWait = 0, shared, batchSize } = deps;
  const usage = durableCollection(deps.usage);
  const batch = createCountBatch(deps);
  const logSetAside = createSetAsideLog(deps.logger, 'usage records cannot be counted and were set aside');
  /** The newest uncounted record at the last look: `maxWait` later, this process may count the records up to it. */
  let newest: string | undefined;
  /** Why the last look has found nothing out. */
  let failure: unknown;
  /** When the last look ended; while it looks, when it must have, for another begins {@link CountDeps.maxWait} later. */
  let lookedAt = Number.NEGATIVE_INFINITY;

  function reportCharged(records: readonly CountedRecord[]): number {
    deps.charged?.(records);
    return records.length;
  }

  async function countFound(filter: UsageFilter): Promise<number> {
    return reportCharged(await transaction((session) => batch.found(filter, session)));
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
    for (const [id, error] of itemFailures(ids, outcomes)) {
      // to repair such a record, find it by `uncountable`, correct it and set `counted: false`
      await usage.updateOne({ _id: id, counted: false }, { $set: { uncountable: true }, $unset: { counted: 1 } });
      logSetAside(error, { id });
    }
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

  async function countAny(filter: UsageFilter): Promise<number> {
    // usually there is nothing to count: that needs no transaction
    if (!(await usage.findOne(filter, { projection: { _id: 1 } }))) return 0;
    try {
      return await countFound(filter);
    } catch (error) {
      if (!isItemFailure(error)) throw error;
      return countIsolated(filter);
    }
  }

  /** Looks for what has not been counted. It may wait for another read, and what this process has written need not. */
  function look(): void {
    lookedAt = performance.now() + longestLook;
    void shared
      .join(firstMatch(usage.collectionName, { counted: false }, { _id: -1 }))
      .then(
        ([found]) => {
          newest = (found as Pick<UsageDocument, '_id'> | undefined)?._id;
        },
        (error) => {
          failure = error;
        },
      )
      .finally(() => {
        lookedAt = performance.now();
      });
  }

  /** Counts records whose process does not count, or has died. */
  async function countAbandoned(): Promise<number> {
    if (maxWait === 0) return countAny({ counted: false });
    if (performance.now() - lookedAt < maxWait) return 0;
    const error = failure;
    failure = undefined;
    const counted = newest === undefined ? 0 : await countAny({ counted: false, _id: { $lte: newest } });
    if (counted < batchSize) {
      newest = undefined;
      look();
    }
    if (error !== undefined) throw error;
    return counted;
  }

  return async function count(): Promise<number> {
    const recent = recentUsage?.take(batchSize) ?? [];
    const counted = recent.length > 0 ? await countRecent(recent) : 0;
    return counted + (await countAbandoned());
  };
}

interface CountingDeps extends Pick<CountDeps, 'batchSize' | 'logger'> {
  readonly count: ReturnType<typeof createCount>;
  /** Milliseconds. */
  readonly interval: number;
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

type UsageFilter = Parameters<ReturnType<typeof durableCollection<UsageDocument>>['find']>[0];

const projection = Object.fromEntries(countedFields.map((field) => [field, 1]));

const byId = { _id: 1 } as const;

type InSession = { readonly session?: ClientSession };

/** Another process has counted some of the records: the transaction must be rolled back. */
class CountedByOthers extends Error {}

/**
 * One transaction marks a batch of records as counted, adds them up, and publishes the thresholds they reach: all of it or
 * nothing. If two processes count the same record, their transactions conflict, and only one of them succeeds. If a process is
 * killed, the database ends its transaction, and others can count the records. Without transactions (`allowStandalone`), only one
 * process may count. Call both in a transaction.
 */
function createCountBatch(deps: CountDeps) {
  const { cost, quotas, batchSize } = deps;
  const usage = durableCollection(deps.usage);
  const counters = durableCollection(deps.counters);
  const periods = durableCollection(deps.periods);
  const addToKeyTotals = createAddToKeyTotals(deps);
  const publishThresholds = quotas && createPublishThresholds(quotas, deps);

  async function mark(records: readonly CountedRecord[], inSession: InSession): Promise<number> {
    const uncounted = { _id: { $in: records.map(({ _id }) => _id) }, counted: false };
    const { modifiedCount } = await usage.updateMany(
      uncounted,
      { $set: { counted: true } },
      { ...inSession, hint: byId },
    );
    return modifiedCount;
  }

  /** Adds records up before anything is written, so that a malformed record throws first. */
  function additionsOf(records: readonly CountedRecord[]) {
    const toPeriods = periodAdditions(records, cost);
    const periodIncrements = increments(toPeriods);
    const counterIncrements = increments(counterAdditions(records, cost));
    const toKeyTotals = keyTotalAdditions(records, cost);
    return async function addUp(inSession: InSession): Promise<void> {
      await addToKeyTotals(toKeyTotals, inSession);
      await counters.bulkWrite(counterIncrements, inSession);
      await periods.bulkWrite(periodIncrements, inSession);
      await publishThresholds?.(toPeriods, inSession.session);
    };
  }

  /** Counts the records that the filter finds, the oldest first. */
  async function found(filter: UsageFilter, session?: ClientSession): Promise<readonly CountedRecord[]> {
    const inSession = { ...(session && { session }) };
    const records = await usage
      .find(filter, { ...inSession, projection })
      .sort({ _id: 1 })
      .limit(batchSize)
      .toArray();
    if (records.length === 0) return records;
    const addUp = additionsOf(records);
    // first, because other processes write balances too, and a later write than theirs would abort this transaction
    await deps.charge?.(records, session);
    await mark(records, inSession);
    await addUp(inSession);
    return records;
  }

  /** Counts these records, which this process wrote. @throws CountedByOthers if another process has counted some of them */
  async function recent(records: readonly CountedRecord[], session: ClientSession): Promise<readonly CountedRecord[]> {
    const addUp = additionsOf(records);
    await deps.chargeNew?.(records, session);
    if ((await mark(records, { session })) < records.length) throw new CountedByOthers();
    await addUp({ session });
    return records;
  }

  return { found, recent };
}

/** The counters of one key together. */
interface CountersOfKey extends UsageSums {
  readonly _id: Pick<KeyTotalDocument, 'userId' | 'keyId'>;
  readonly microCredits: number;
}

/**
 * A total that is new begins with what the counters of its key hold: a key that was used before there were totals has some. In a
 * transaction, no other process can add to either at the same time; without one, only one process counts.
 */
function createAddToKeyTotals(deps: Pick<CountDeps, 'counters' | 'keyTotals'>) {
  const counters = durableCollection(deps.counters);
  const keyTotals = durableCollection(deps.keyTotals);

  /** Call it before the same records are added to the counters. */
  return async function addToKeyTotals(additions: readonly KeyTotalAddition[], inSession: InSession): Promise<void> {
    if (additions.length === 0) return;
    const { upsertedIds } = await keyTotals.bulkWrite(increments(additions), inSession);
    const added = Object.keys(upsertedIds).map((index) => (additions[Number(index)] as KeyTotalAddition).key);
    if (added.length === 0) return;
    const ids = new Set(added.map(({ _id }) => _id));
    const filter = {
      userId: { $in: added.map(({ userId }) => userId) },
      keyId: { $in: added.map(({ keyId }) => keyId) },
    };
    const groups = await counters
      .aggregate<CountersOfKey>(
        [{ $match: filter }, { $group: { _id: { userId: '$userId', keyId: '$keyId' }, ...summed } }],
        { ...inSession, ...inOneBatch },
      )
      .toArray();
    const before = groups
      .map(({ _id: { userId, keyId }, ...sums }) => ({ _id: keyTotalId(userId, keyId), sums }))
      .filter(({ _id }) => ids.has(_id));
    if (before.length === 0) return;
    await keyTotals.bulkWrite(
      before.map(({ _id, sums }) => ({ updateOne: { filter: { _id }, update: { $inc: sums } } })),
      inSession,
    );
  };
}
