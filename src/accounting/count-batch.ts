import type { ClientSession } from 'mongoose';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import type { CounterModel, KeyTotalDocument, KeyTotalModel, UsageDocument, UsageModel, UsageSums } from './model.ts';
import {
  type Addition,
  type CountedRecord,
  countedFields,
  counterAdditions,
  increments,
  type KeyTotalAddition,
  keyTotalAdditions,
  keyTotalId,
  noUsage,
  periodAdditions,
} from './sums.ts';
import { createPublishThresholds, type ThresholdDeps } from './thresholds.ts';

export interface CountBatchDeps extends Omit<ThresholdDeps, 'cost'> {
  readonly usage: UsageModel;
  readonly counters: CounterModel;
  readonly keyTotals: KeyTotalModel;
  /** Charges for records in the transaction that counts them; skips a record that is charged already. @default no charge */
  readonly charge?: (records: readonly CountedRecord[], session: ClientSession | undefined) => Promise<void>;
  /** The same for records that are not charged yet; rejects with code 11000 if one is. @default no charge */
  readonly chargeNew?: (records: readonly CountedRecord[], session: ClientSession) => Promise<void>;
  /** What a record costs, in micro-credits; quotas of credits count it. @default nothing */
  readonly cost?: (record: CountedRecord) => number;
  /** The most records of one transaction. */
  readonly batchSize: number;
}

/** Counts one batch of records. Call it in a transaction. */
export interface CountBatch {
  /** Counts the records that the filter finds, the oldest first. */
  found(filter: UsageFilter, session?: ClientSession): Promise<readonly CountedRecord[]>;
  /** Counts these records, which this process wrote. @throws CountedByOthers if another process has counted some of them */
  recent(records: readonly CountedRecord[], session: ClientSession): Promise<readonly CountedRecord[]>;
}

export type UsageFilter = Parameters<ReturnType<typeof durableCollection<UsageDocument>>['find']>[0];

const projection = Object.fromEntries(countedFields.map((field) => [field, 1]));

const byId = { _id: 1 } as const;

type InSession = { readonly session?: ClientSession };

/** Another process has counted some of the records: the transaction must be rolled back. */
export class CountedByOthers extends Error {}

/**
 * One transaction marks a batch of records as counted, adds them up, and publishes the thresholds they reach: all of it or
 * nothing. If two processes count the same record, their transactions conflict, and only one of them succeeds. If a process is
 * killed, the database ends its transaction, and others can count the records. Without transactions (`allowStandalone`), only one
 * process may count.
 */
export function createCountBatch(deps: CountBatchDeps): CountBatch {
  const { cost = () => 0, batchSize } = deps;
  const usage = durableCollection(deps.usage);
  const counters = durableCollection(deps.counters);
  const periods = durableCollection(deps.periods);
  const addToKeyTotals = createAddToKeyTotals(deps);
  const publishThresholds = createPublishThresholds({ ...deps, cost });

  /** An addition with its cost. */
  function priced<Key>(addition: Addition<Key>): Addition<Key> {
    const spent = addition.records.reduce((sum, record) => sum + cost(record), 0);
    return { ...addition, sums: { ...addition.sums, ...(spent > 0 && { microCredits: spent }) } };
  }

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
    const toPeriods = periodAdditions(records);
    const periodIncrements = increments(toPeriods.map(priced));
    const counterIncrements = increments(counterAdditions(records).map(priced));
    const toKeyTotals = keyTotalAdditions(records).map(priced);
    return async function addUp(inSession: InSession): Promise<void> {
      await addToKeyTotals(toKeyTotals, inSession);
      await counters.bulkWrite(counterIncrements, inSession);
      await periods.bulkWrite(periodIncrements, inSession);
      await publishThresholds(toPeriods, inSession.session);
    };
  }

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

const summedFields = [...Object.keys(noUsage()), 'microCredits'];

const summed = Object.fromEntries(summedFields.map((field) => [field, { $sum: `$${field}` }]));

/**
 * A total that is new begins with what the counters of its key hold: a key that was used before there were totals has some. In a
 * transaction, no other process can add to either at the same time; without one, only one process counts.
 */
function createAddToKeyTotals(deps: Pick<CountBatchDeps, 'counters' | 'keyTotals'>) {
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
