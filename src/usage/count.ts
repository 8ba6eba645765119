import type { ClientSession } from 'mongoose';
import { durableCollection } from '../collection.ts';
import { type AnnounceDeps, createAnnounce } from './announce.ts';
import type { CounterModel, UsageDocument, UsageModel } from './model.ts';
import {
  type Addition,
  type CountedRecord,
  countedFields,
  counterAdditions,
  type PeriodAddition,
  periodAdditions,
} from './sums.ts';
import type { Written } from './written.ts';

export interface CountDeps extends Omit<AnnounceDeps, 'cost'> {
  readonly usage: UsageModel;
  readonly counters: CounterModel;
  /** Runs writes and what they publish as one; without a session where the database has no transactions. */
  readonly transaction: <T>(fn: (session: ClientSession | undefined) => Promise<T>) => Promise<T>;
  /** Charges for records in the transaction that counts them; a record that was charged already it leaves. @default nobody is charged */
  readonly charge?: (records: readonly CountedRecord[], session: ClientSession | undefined) => Promise<void>;
  /** What a record costs, in micro-credits; quotas of credits count it. @default nothing */
  readonly cost?: (record: CountedRecord) => number;
  /** What this process writes itself, and counts first. @default it writes nothing */
  readonly written?: Pick<Written, 'take'>;
  /** How long records are left to whoever wrote them. Milliseconds. @default 0 */
  readonly patience?: number;
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

/** Records that were to be counted are counted. */
class CountedByOthers extends Error {}

/**
 * One transaction marks a batch of records as counted, adds them up, and publishes the thresholds they reach: all of it or
 * nothing. Two processes that count the same record conflict, and the database lets one of them do it. What a process
 * had begun when it was killed is free again when another has ended its transaction.
 */
export function createCount(deps: CountDeps): Count {
  const { transaction, cost = () => 0, written, patience = 0, batchSize } = deps;
  const usage = durableCollection(deps.usage);
  const counters = durableCollection(deps.counters);
  const periods = durableCollection(deps.periods);
  const announce = createAnnounce({ ...deps, cost });
  /** The newest record that waited when it was last looked: what comes before it has had its time. */
  let newest: string | undefined;
  let lookedAt = Number.NEGATIVE_INFINITY;

  /** What is added to a day or month, its cost with it. */
  function priced(addition: PeriodAddition): PeriodAddition {
    const spent = addition.records.reduce((sum, record) => sum + cost(record), 0);
    return { ...addition, sums: { ...addition.sums, ...(spent > 0 && { microCredits: spent }) } };
  }

  /** @throws CountedByOthers where some are, and all of it is to be undone */
  async function add(records: readonly CountedRecord[], session?: ClientSession): Promise<number> {
    const within = { ...(session && { session }) };
    // first, for balances are written by others too, and whoever comes after them has to begin again
    await deps.charge?.(records, session);
    const uncounted = { _id: { $in: records.map(({ _id }) => _id) }, counted: false };
    const { modifiedCount } = await usage.updateMany(uncounted, { $set: { counted: true } }, { ...within, hint: byId });
    if (session && modifiedCount < records.length) throw new CountedByOthers();
    const additions = periodAdditions(records);
    await counters.bulkWrite(increments(counterAdditions(records)), within);
    await periods.bulkWrite(increments(additions.map(priced)), within);
    await announce(additions, session);
    return records.length;
  }

  async function addFound(filter: Filter, session?: ClientSession): Promise<number> {
    const records = await usage
      .find(filter, { ...(session && { session }), projection })
      .sort({ _id: 1 })
      .limit(batchSize)
      .toArray();
    return records.length > 0 ? add(records, session) : 0;
  }

  /** Most often nobody else has counted what this process wrote, and it need not be read back. */
  async function countOwn(records: readonly CountedRecord[]): Promise<number> {
    const left = { _id: { $in: records.map(({ _id }) => _id) }, counted: false };
    try {
      return await transaction((session) => (session ? add(records, session) : addFound(left)));
    } catch (error) {
      if (!(error instanceof CountedByOthers)) throw error;
      return transaction((session) => addFound(left, session));
    }
  }

  /** Counts what was written by those who count nothing, or died. */
  async function countAbandoned(): Promise<number> {
    const now = performance.now();
    if (now - lookedAt < patience) return 0;
    const left = { counted: false, ...(patience > 0 && { _id: { $lte: newest ?? '' } }) };
    // most often there is nothing to do, and no need of a transaction to see it, nor to ask where nothing waited
    const isNone = patience > 0 && newest === undefined;
    const isAny = !isNone && (await usage.findOne(left, { projection: { _id: 1 } })) !== null;
    const counted = isAny ? await transaction((session) => addFound(left, session)) : 0;
    if (counted === batchSize || patience === 0) return counted;
    lookedAt = now;
    newest = (await usage.findOne({ counted: false }, { projection: { _id: 1 }, sort: { _id: -1 } }))?._id;
    return counted;
  }

  return async function count() {
    const own = written?.take(batchSize) ?? [];
    const counted = own.length > 0 ? await countOwn(own) : 0;
    return counted + (await countAbandoned());
  };
}
