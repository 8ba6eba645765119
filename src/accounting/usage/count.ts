import type { ClientSession } from 'mongoose';
import { durableCollection } from '../../mongo/collection.ts';
import { createPeriodic, type Periodic } from '../../mongo/periodic.ts';
import type { RunInTransaction } from '../../mongo/transaction.ts';
import { isDuplicateKey } from '../../mongo/writes/duplicate-key.ts';
import { createSetAsideLog, isItemFailure } from '../../mongo/writes/item-failure.ts';
import { writeIsolated } from '../../mongo/writes/write-isolated.ts';
import type { Logger } from '../../options/options.ts';
import type { CounterModel, UsageDocument, UsageModel } from './model.ts';
import { type AnnounceDeps, createAnnounce } from './publish-thresholds.ts';
import {
  type Addition,
  type CountedRecord,
  countedFields,
  counterAdditions,
  type PeriodAddition,
  periodAdditions,
} from './sums.ts';

/** The most records that are kept; beyond, all of them are left to be found in the database. */
const maxRecentRecords = 20_000;

/**
 * The records that this process has written and that wait to be counted, so that nearly none has to be read back. Only a
 * shortcut: the database knows which are counted.
 */
export class RecentUsage {
  #records: CountedRecord[] = [];
  #isTaken = false;

  /** Somebody will take them from now on. */
  open(): void {
    this.#isTaken = true;
  }

  add(records: readonly CountedRecord[]): void {
    if (!this.#isTaken) return;
    if (this.#records.length + records.length > maxRecentRecords) this.#records = [];
    this.#records.push(...records);
  }

  /** The oldest, so many at most. */
  take(limit: number): CountedRecord[] {
    return this.#records.splice(0, limit);
  }
}

export interface CountDeps extends Omit<AnnounceDeps, 'cost'> {
  readonly usage: UsageModel;
  readonly counters: CounterModel;
  readonly transaction: RunInTransaction;
  /** Charges for records in the transaction that counts them; a record that was charged already it leaves. @default nobody is charged */
  readonly charge?: (records: readonly CountedRecord[], session: ClientSession | undefined) => Promise<void>;
  /** The same for records that nobody has charged; rejects with code 11000 where somebody has. @default nobody is charged */
  readonly chargeNew?: (records: readonly CountedRecord[], session: ClientSession) => Promise<void>;
  /** Told of records when what was charged for them is committed. @default nobody is told */
  readonly charged?: (records: readonly CountedRecord[]) => void;
  /** What a record costs, in micro-credits; quotas of credits count it. @default nothing */
  readonly cost?: (record: CountedRecord) => number;
  /** What this process writes itself, and counts first. @default it writes nothing */
  readonly recentUsage?: Pick<RecentUsage, 'take'>;
  /** How long records are left to whoever wrote them. Milliseconds. @default 0 */
  readonly maxWait?: number;
  /** The most records of one transaction. */
  readonly batchSize: number;
}

/** Adds records that have ended to the counters; resolves to how many. There may be more where it is `batchSize` or more. */
export type Count = () => Promise<number>;

type Filter = Parameters<ReturnType<typeof durableCollection<UsageDocument>>['find']>[0];

const projection = Object.fromEntries(countedFields.map((field) => [field, 1]));

const byId = { _id: 1 } as const;

/** One upsert for each document that something is added to. */
function increments<Key extends { _id: string }>(additions: readonly Addition<Key>[]) {
  return additions.map(({ key: { _id, ...key }, sums }) => ({
    updateOne: { filter: { _id }, update: { $inc: { ...sums }, $setOnInsert: key }, upsert: true },
  }));
}

/** More than a transaction is tried again for. Milliseconds. */
const longestCount = 150_000;

type Within = { readonly session?: ClientSession };

/** Records that were to be counted are counted. */
class CountedByOthers extends Error {}

/**
 * One transaction marks a batch of records as counted, adds them up, and publishes the thresholds they reach: all of it or
 * nothing. Two processes that count the same record conflict, and the database lets one of them do it. What a process
 * had begun when it was killed is free again when another has ended its transaction.
 */
export function createCount(deps: CountDeps): Count {
  const { transaction, cost = () => 0, recentUsage, maxWait = 0, batchSize } = deps;
  const usage = durableCollection(deps.usage);
  const counters = durableCollection(deps.counters);
  const periods = durableCollection(deps.periods);
  const announce = createAnnounce({ ...deps, cost });
  const logSetAside = createSetAsideLog(deps.logger, 'usage records cannot be counted and were set aside');
  /** The newest record that waited when it was last looked: what comes before it has had its time. */
  let newest: string | undefined;
  let lookedAt = Number.NEGATIVE_INFINITY;

  /** What is added to a day or month, its cost with it. */
  function priced(addition: PeriodAddition): PeriodAddition {
    const spent = addition.records.reduce((sum, record) => sum + cost(record), 0);
    return { ...addition, sums: { ...addition.sums, ...(spent > 0 && { microCredits: spent }) } };
  }

  async function mark(records: readonly CountedRecord[], within: Within): Promise<number> {
    const uncounted = { _id: { $in: records.map(({ _id }) => _id) }, counted: false };
    const { modifiedCount } = await usage.updateMany(uncounted, { $set: { counted: true } }, { ...within, hint: byId });
    return modifiedCount;
  }

  /** What records add up to, before anything is written: one that is malformed throws here. */
  function additionsOf(records: readonly CountedRecord[]) {
    const toPeriods = periodAdditions(records);
    const periodIncrements = increments(toPeriods.map(priced));
    const counterIncrements = increments(counterAdditions(records));
    return async function addUp(within: Within): Promise<void> {
      await counters.bulkWrite(counterIncrements, within);
      await periods.bulkWrite(periodIncrements, within);
      await announce(toPeriods, within.session);
    };
  }

  async function addFound(filter: Filter, session?: ClientSession): Promise<readonly CountedRecord[]> {
    const within = { ...(session && { session }) };
    const records = await usage
      .find(filter, { ...within, projection })
      .sort({ _id: 1 })
      .limit(batchSize)
      .toArray();
    if (records.length === 0) return records;
    const addUp = additionsOf(records);
    // first, for balances are written by others too, and whoever comes after them has to begin again
    await deps.charge?.(records, session);
    await mark(records, within);
    await addUp(within);
    return records;
  }

  /** @throws CountedByOthers where some are, and all of it is to be undone */
  async function addOwn(records: readonly CountedRecord[], session: ClientSession): Promise<readonly CountedRecord[]> {
    const addUp = additionsOf(records);
    await deps.chargeNew?.(records, session);
    if ((await mark(records, { session })) < records.length) throw new CountedByOthers();
    await addUp({ session });
    return records;
  }

  const countFound = async (filter: Filter) => noted(await transaction((session) => addFound(filter, session)));

  /** So that what cannot be counted is in nobody's way: found by `uncountable`, it can be mended and set to `counted: false`. */
  async function setAside(_id: string, error: unknown): Promise<void> {
    await usage.updateOne({ _id, counted: false }, { $set: { uncountable: true }, $unset: { counted: 1 } });
    logSetAside(error, { id: _id });
  }

  /** Counts what the filter finds, without what cannot be counted. */
  async function countIsolated(filter: Filter): Promise<number> {
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

  /** Most often nobody else has counted what this process wrote, and it need not be read back. */
  async function countOwn(records: readonly CountedRecord[]): Promise<number> {
    const left = { _id: { $in: records.map(({ _id }) => _id) }, counted: false };
    try {
      return noted(await transaction((session) => (session ? addOwn(records, session) : addFound(left))));
    } catch (error) {
      if (isItemFailure(error)) return countIsolated(left);
      const isOvertaken = error instanceof CountedByOthers || isDuplicateKey(error);
      if (!isOvertaken) throw error;
      return countFound(left);
    }
  }

  async function countLeft(left: Filter): Promise<number> {
    try {
      return await countFound(left);
    } catch (error) {
      if (!isItemFailure(error)) throw error;
      return countIsolated(left);
    }
  }

  /** Counts what was written by those who count nothing, or died. */
  async function countAbandoned(): Promise<number> {
    const now = performance.now();
    if (now - lookedAt < maxWait) return 0;
    const left = { counted: false, ...(maxWait > 0 && { _id: { $lte: newest ?? '' } }) };
    // most often there is nothing to do, and no need of a transaction to see it, nor to ask where nothing waited
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

/** Counts again and again, and at once where there is more than one count can add. */
export function createCounting({ count, batchSize, interval, logger }: CountingDeps): Periodic {
  async function task(): Promise<void> {
    try {
      if ((await count()) >= batchSize) counting.hurry();
    } catch (error) {
      // another process has made the same counter at the same moment: next time it is there
      if (!isDuplicateKey(error)) throw error;
    }
  }

  const counting = createPeriodic({ name: 'counting usage', task, interval, longestRun: longestCount, logger });
  return counting;
}
