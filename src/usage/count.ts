import type { ClientSession } from 'mongoose';
import { durableCollection } from '../collection.ts';
import { GatewayError } from '../errors.ts';
import type { EventInput, PublishOptions } from '../events/publication.ts';
import type { Logger, Quota, QuotaOptions } from '../options.ts';
import type { CounterModel, PeriodDocument, PeriodModel, UsageModel } from './model.ts';
import { type Addition, type CountedRecord, countedFields, counterAdditions, periodAdditions } from './sums.ts';
import { type Crossing, crossings } from './thresholds.ts';

export interface CountDeps {
  readonly usage: UsageModel;
  readonly counters: CounterModel;
  readonly periods: PeriodModel;
  /** Runs writes and what they publish as one; without a session where the database has no transactions. */
  readonly transaction: <T>(fn: (session: ClientSession | undefined) => Promise<T>) => Promise<T>;
  readonly publish: (input: EventInput, options: PublishOptions) => Promise<unknown>;
  /** `undefined`: usage is counted, and nobody is told of it. */
  readonly quotas: QuotaOptions | undefined;
  /** Charges for records in the transaction that counts them; a record that was charged already it leaves. @default nobody is charged */
  readonly charge?: (records: readonly CountedRecord[], session: ClientSession | undefined) => Promise<void>;
  /** What a record costs, in micro-credits; quotas of credits count it. @default nothing */
  readonly cost?: (record: CountedRecord) => number;
  readonly logger: Logger;
  /** The most records of one transaction. */
  readonly batchSize: number;
}

/** Adds records that have ended to the counters; resolves to how many. */
export type Count = () => Promise<number>;

const projection = Object.fromEntries(countedFields.map((field) => [field, 1]));

type PeriodAddition = ReturnType<typeof periodAdditions>[number];

/** One upsert for each document that something is added to. */
function increments<Key extends { _id: string }>(additions: readonly Addition<Key>[]) {
  return additions.map(({ key: { _id, ...key }, sums }) => ({
    updateOne: { filter: { _id }, update: { $inc: { ...sums }, $setOnInsert: key }, upsert: true },
  }));
}

const microCredits = 1_000_000;

/** A quota in what is counted: micro-credits for credits. Pure. */
function countedLimit(limit: number, unit: Quota['unit']): number {
  return unit === 'credits' ? limit * microCredits : limit;
}

function usedOf(period: PeriodDocument, unit: Quota['unit']): number {
  if (unit === 'requests') return period.requests;
  return unit === 'credits' ? (period.microCredits ?? 0) : period.inputTokens + period.outputTokens;
}

/**
 * One transaction marks a batch of records as counted, adds them up, and publishes the thresholds they reach: all of it or
 * nothing. Two processes that count the same record conflict, and the database lets one of them do it. What a process
 * had begun when it was killed is free again when another has ended its transaction.
 */
export function createCount(deps: CountDeps): Count {
  const { quotas, publish, cost = () => 0, logger, batchSize } = deps;
  const usage = durableCollection(deps.usage);
  const counters = durableCollection(deps.counters);
  const periods = durableCollection(deps.periods);
  const thresholds = quotas?.thresholds ?? [80, 100];

  function quotaOf(userId: string): Quota | undefined {
    if (typeof quotas?.perUser !== 'function') return quotas?.perUser;
    try {
      return quotas.perUser(userId);
    } catch (error) {
      logger.error("the host's quotas.perUser failed", { error: String(error) });
      return undefined;
    }
  }

  async function tell({ userId, period, start }: PeriodDocument, crossing: Crossing, session?: ClientSession) {
    const { threshold, usage: current_usage } = crossing;
    const data = { user_id: userId, threshold, current_usage, period };
    const idempotencyKey = `usage.threshold:${period}:${start}:${threshold}`;
    try {
      await publish({ type: 'usage.threshold', userId, data }, { idempotencyKey, ...(session && { session }) });
    } catch (error) {
      const refused = error instanceof GatewayError && error.status < 500;
      if (!refused) throw error;
      // trying again would not help, and must not keep the records of others from being counted
      logger.error('a usage.threshold cannot be published', { param: error.param, reason: error.message });
    }
  }

  function amountOf(record: CountedRecord, unit: Quota['unit']): number {
    if (unit === 'requests') return 1;
    return unit === 'credits' ? cost(record) : record.inputTokens + record.outputTokens;
  }

  /** What is added to a day or month, its cost with it. */
  function priced(addition: PeriodAddition): PeriodAddition {
    const spent = addition.records.reduce((sum, record) => sum + cost(record), 0);
    return { ...addition, sums: { ...addition.sums, ...(spent > 0 && { microCredits: spent }) } };
  }

  function crossed(addition: PeriodAddition, after: PeriodDocument): Crossing[] {
    const quota = quotaOf(after.userId);
    const limit = quota?.[after.period];
    if (!quota || limit === undefined) return [];
    const amounts = addition.records.map((record) => amountOf(record, quota.unit));
    const before = usedOf(after, quota.unit) - amounts.reduce((sum, amount) => sum + amount, 0);
    return crossings(before, amounts, countedLimit(limit, quota.unit), thresholds, after.announced ?? []);
  }

  async function announce(additions: readonly PeriodAddition[], session?: ClientSession): Promise<void> {
    const concerned = additions.filter(({ key }) => quotaOf(key.userId)?.[key.period] !== undefined);
    if (concerned.length === 0) return;
    const byId = new Map(concerned.map((addition) => [addition.key._id, addition]));
    const found = await periods.find({ _id: { $in: [...byId.keys()] } }, { ...(session && { session }) }).toArray();
    for (const after of found) {
      const reached = crossed(byId.get(after._id) as PeriodAddition, after);
      if (reached.length === 0) continue;
      for (const crossing of reached) await tell(after, crossing, session);
      const announced = { $each: reached.map(({ threshold }) => threshold) };
      await periods.updateOne({ _id: after._id }, { $push: { announced } }, { ...(session && { session }) });
    }
  }

  async function countBatch(session?: ClientSession): Promise<number> {
    const within = { ...(session && { session }) };
    const records = await usage
      .find({ counted: false }, { ...within, projection })
      .sort({ _id: 1 })
      .limit(batchSize)
      .toArray();
    if (records.length === 0) return 0;
    // first, for balances are written by others too, and whoever comes after them has to begin again
    await deps.charge?.(records, session);
    const ids = records.map(({ _id }) => _id);
    await usage.updateMany({ _id: { $in: ids } }, { $set: { counted: true } }, within);
    const additions = periodAdditions(records);
    await counters.bulkWrite(increments(counterAdditions(records)), within);
    await periods.bulkWrite(increments(additions.map(priced)), within);
    await announce(additions, session);
    return records.length;
  }

  return async function count() {
    // most often there is nothing to do, and no need of a transaction to see it
    if (!(await usage.findOne({ counted: false }, { projection: { _id: 1 } }))) return 0;
    return deps.transaction(countBatch);
  };
}
