import type { ClientSession } from 'mongoose';
import { createSetAsideLog, isItemFailure, itemFailures, writeIsolated } from '../mongo/batcher.ts';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import type { RunInTransaction } from '../mongo/connection/availability.ts';
import { isDuplicateKey } from '../mongo/writes.ts';
import type { CreditService } from './credits.ts';
import type { AccountingModels, KeyTotalDocument, UsageDocument, UsageSums } from './model.ts';
import {
  additionsOf,
  type CostOf,
  type CountedRecord,
  countedFields,
  increments,
  type KeyTotalAddition,
  keyTotalId,
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

export interface CountDeps extends ThresholdDeps, Pick<AccountingModels, 'usage' | 'counters' | 'keyTotals'> {
  /** Charges for what is counted. @default nobody does */
  readonly credits?: Pick<CreditService, 'charge' | 'chargeNew'>;
  /** @default nothing has a price */
  readonly cost?: CostOf;
  /** `undefined` for none: then no threshold is published. */
  readonly quotas: ThresholdQuotas | undefined;
  /** The most records of one transaction. */
  readonly batchSize: number;
  readonly transaction: RunInTransaction;
  /** The records that this process has written, which it counts first. @default none */
  readonly recentUsage?: Pick<RecentUsage, 'take'>;
  /** How long the process that wrote a record may take to count it, before this one does. Milliseconds. @default 0 */
  readonly maxWait?: number;
}

/** Longer than a transaction is retried. Milliseconds. */
export const longestCount = 150_000;

/** If it takes longer to look for such records, they are looked for again. Milliseconds. */
const longestLook = 10_000;

type UsageFilter = Parameters<ReturnType<typeof durableCollection<UsageDocument>>['find']>[0];

const projection = Object.fromEntries(countedFields.map((field) => [field, 1]));

const byId = { _id: 1 } as const;

/** Another process has counted some of the records: the transaction must be rolled back. */
class CountedByOthers extends Error {}

/**
 * Makes the function that counts the records that a filter finds, the oldest first; it resolves to how many it has found. Sets aside records
 * that cannot be counted, so that it can count the others.
 */
function createCountFound(deps: CountDeps) {
  const { transaction, batchSize, credits } = deps;
  const usage = durableCollection(deps.usage);
  const writeCounts = createWriteCounts(deps);
  const logSetAside = createSetAsideLog(deps.logger, 'usage records cannot be counted and were set aside');

  /** @throws CountedByOthers */
  async function countTogether(filter: UsageFilter, recent?: readonly CountedRecord[]): Promise<number> {
    const counted = await transaction(async (session) => {
      if (recent && session) {
        await writeCounts(recent, session, () => credits?.chargeNew(recent, session));
        return recent;
      }
      const options = { projection, sort: byId, limit: batchSize, ...(session && { session }) };
      const found: readonly CountedRecord[] = await usage.find(filter, options).toArray();
      if (found.length > 0) await writeCounts(found, session, () => credits?.charge(found, session));
      return found;
    });
    return counted.length;
  }

  async function countIsolated(filter: UsageFilter): Promise<number> {
    const options = { projection: byId, sort: byId, limit: batchSize };
    const ids = (await usage.find(filter, options).toArray()).map(({ _id }) => _id);
    const outcomes = await writeIsolated(ids, {
      timeout: longestCount,
      async write(part) {
        await countTogether({ _id: { $in: [...part] }, counted: false });
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

  /** @param recent what it finds, if no other process has counted some of them: then they are not read */
  return async function countFound(filter: UsageFilter, recent?: readonly CountedRecord[]): Promise<number> {
    try {
      return await countTogether(filter, recent);
    } catch (error) {
      if (isItemFailure(error)) return countIsolated(filter);
      const isOvertaken = recent && (error instanceof CountedByOthers || isDuplicateKey(error));
      if (!isOvertaken) throw error;
      return countTogether(filter);
    }
  };
}

/**
 * Makes the function that counts records of ended calls; it resolves to how many. If it is `batchSize` or more, there may be more to count.
 */
export function createCount(deps: CountDeps) {
  const { recentUsage, maxWait = 0, batchSize } = deps;
  const usage = durableCollection(deps.usage);
  const countFound = createCountFound(deps);
  /** The newest uncounted record at the last look: `maxWait` later, this process may count the records up to it. */
  let newest: string | undefined;
  /** Why the last look has found nothing out. */
  let failure: unknown;
  /** When the last look ended; while it looks, when it must have, for another begins {@link CountDeps.maxWait} later. */
  let lookedAt = Number.NEGATIVE_INFINITY;

  /** Looks for what has not been counted. What this process has written does not wait for it. */
  async function look(): Promise<void> {
    lookedAt = performance.now() + longestLook;
    try {
      newest = (await usage.findOne({ counted: false }, { projection: byId, sort: { _id: -1 } }))?._id;
    } catch (error) {
      failure = error;
    } finally {
      lookedAt = performance.now();
    }
  }

  async function countAny(filter: UsageFilter): Promise<number> {
    // usually there is nothing to count: that needs no transaction
    return (await usage.findOne(filter, { projection: byId })) ? countFound(filter) : 0;
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
      void look();
    }
    if (error !== undefined) throw error;
    return counted;
  }

  return async function count(): Promise<number> {
    const recent = recentUsage?.take(batchSize) ?? [];
    const ids = recent.map(({ _id }) => _id);
    const counted = recent.length > 0 ? await countFound({ _id: { $in: ids }, counted: false }, recent) : 0;
    return counted + (await countAbandoned());
  };
}

/**
 * One transaction charges for a batch of records, marks them as counted, adds them up, and publishes the thresholds they reach: all of it or
 * nothing. If two processes count the same record, their transactions conflict, and only one of them succeeds. If a process is
 * killed, the database ends its transaction, and others can count the records. Without transactions (`allowStandalone`), only one
 * process may count. Call it in a transaction.
 */
function createWriteCounts(deps: CountDeps) {
  const { cost, quotas } = deps;
  const usage = durableCollection(deps.usage);
  const counters = durableCollection(deps.counters);
  const periods = durableCollection(deps.periods);
  const addToKeyTotals = createAddToKeyTotals(deps);
  const publishThresholds = quotas && createPublishThresholds(quotas, deps);

  /** @throws CountedByOthers if another process has counted some of them */
  return async function writeCounts(
    records: readonly CountedRecord[],
    session: ClientSession | undefined,
    charge: () => Promise<void> | undefined,
  ): Promise<void> {
    const inSession = { ...(session && { session }) };
    // before anything is written, so that a malformed record throws first
    const additions = additionsOf(records, cost);
    // first, because other processes write balances too, and a later write than theirs would abort this transaction
    await charge();
    const uncounted = { _id: { $in: records.map(({ _id }) => _id) }, counted: false };
    const counted = { $set: { counted: true } };
    const { modifiedCount } = await usage.updateMany(uncounted, counted, { ...inSession, hint: byId });
    if (session && modifiedCount < records.length) throw new CountedByOthers();
    await addToKeyTotals(additions.keyTotals, inSession);
    await counters.bulkWrite(increments(additions.counters), inSession);
    await periods.bulkWrite(increments(additions.periods), inSession);
    await publishThresholds?.(additions.periods, session);
  };
}

/**
 * A total that is new begins with what the counters of its key hold: a key that was used before there were totals has some. In a
 * transaction, no other process can add to either at the same time; without one, only one process counts.
 */
function createAddToKeyTotals(deps: Pick<CountDeps, 'counters' | 'keyTotals'>) {
  const counters = durableCollection(deps.counters);
  const keyTotals = durableCollection(deps.keyTotals);

  /** Call it before the same records are added to the counters. */
  return async function addToKeyTotals(
    additions: readonly KeyTotalAddition[],
    inSession: { readonly session?: ClientSession },
  ): Promise<void> {
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
      .aggregate<UsageSums & { readonly _id: Pick<KeyTotalDocument, 'userId' | 'keyId'> }>(
        [{ $match: filter }, { $group: { _id: { userId: '$userId', keyId: '$keyId' }, ...summed } }],
        { ...inSession, ...inOneBatch },
      )
      .toArray();
    const before = groups.flatMap(({ _id: { userId, keyId }, ...sums }) => {
      const _id = keyTotalId(userId, keyId);
      return ids.has(_id) ? [{ updateOne: { filter: { _id }, update: { $inc: sums } } }] : [];
    });
    if (before.length > 0) await keyTotals.bulkWrite(before, inSession);
  };
}
