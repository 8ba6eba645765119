import type { ClientSession } from 'mongoose';
import { durableCollection } from '../../mongo/collection.ts';
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

export interface CountBatchDeps extends Omit<AnnounceDeps, 'cost'> {
  readonly usage: UsageModel;
  readonly counters: CounterModel;
  /** Charges for records in the transaction that counts them; skips a record that has been charged. @default nobody is charged */
  readonly charge?: (records: readonly CountedRecord[], session: ClientSession | undefined) => Promise<void>;
  /** The same for records that have not been charged; rejects with code 11000 where one has. @default nobody is charged */
  readonly chargeNew?: (records: readonly CountedRecord[], session: ClientSession) => Promise<void>;
  /** What a record costs, in micro-credits; quotas of credits count it. @default nothing */
  readonly cost?: (record: CountedRecord) => number;
  /** The most records of one transaction. */
  readonly batchSize: number;
}

/** Counts one batch of records. To be called in a transaction. */
export interface CountBatch {
  /** Counts the records that the filter finds, the oldest first. */
  found(filter: UsageFilter, session?: ClientSession): Promise<readonly CountedRecord[]>;
  /** Counts these records, which this process wrote. @throws CountedByOthers when another process has counted some of them */
  own(records: readonly CountedRecord[], session: ClientSession): Promise<readonly CountedRecord[]>;
}

export type UsageFilter = Parameters<ReturnType<typeof durableCollection<UsageDocument>>['find']>[0];

const projection = Object.fromEntries(countedFields.map((field) => [field, 1]));

const byId = { _id: 1 } as const;

/** One upsert for each document that something is added to. */
function increments<Key extends { _id: string }>(additions: readonly Addition<Key>[]) {
  return additions.map(({ key: { _id, ...key }, sums }) => ({
    updateOne: { filter: { _id }, update: { $inc: { ...sums }, $setOnInsert: key }, upsert: true },
  }));
}

type Within = { readonly session?: ClientSession };

/** Another process has counted some of the records: the transaction has to be rolled back. */
export class CountedByOthers extends Error {}

/**
 * One transaction marks a batch of records as counted, adds them up, and publishes the thresholds they reach: all of it or
 * nothing. Two processes that count the same record conflict, and the database lets one of them do it. What a process
 * had begun when it was killed is free again when another has ended its transaction.
 */
export function createCountBatch(deps: CountBatchDeps): CountBatch {
  const { cost = () => 0, batchSize } = deps;
  const usage = durableCollection(deps.usage);
  const counters = durableCollection(deps.counters);
  const periods = durableCollection(deps.periods);
  const announce = createAnnounce({ ...deps, cost });

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

  async function found(filter: UsageFilter, session?: ClientSession): Promise<readonly CountedRecord[]> {
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

  async function own(records: readonly CountedRecord[], session: ClientSession): Promise<readonly CountedRecord[]> {
    const addUp = additionsOf(records);
    await deps.chargeNew?.(records, session);
    if ((await mark(records, { session })) < records.length) throw new CountedByOthers();
    await addUp({ session });
    return records;
  }

  return { found, own };
}
