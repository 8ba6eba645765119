import type { ClientSession } from 'mongoose';
import { describeThrown } from '../errors.ts';
import type { EventInput, PublishOptions } from '../events/service.ts';
import { durableCollection } from '../mongo/collection.ts';
import { accountRows } from '../options/accounts.ts';
import type { Logger, Quota, QuotaOptions } from '../options/options.ts';
import { checkQuota } from '../options/resolve.ts';
import type { PeriodDocument, PeriodModel } from './model.ts';
import { microCreditsPerCredit } from './price.ts';
import { createPublishOrLog } from './publish-or-log.ts';
import { type CostOf, type CountedRecord, type PeriodAddition, requestsIn } from './sums.ts';

/** Quotas, and the percentages of them that events report. */
export interface ThresholdQuotas {
  readonly quotaOf: QuotaOf;
  /** @default [80, 100] */
  readonly thresholds: readonly number[] | undefined;
}

export interface ThresholdDeps {
  readonly periods: PeriodModel;
  readonly publish: (input: EventInput, options: PublishOptions) => Promise<unknown>;
  /** What quotas of credits count. @default nothing has a price */
  readonly cost?: CostOf;
  readonly logger: Logger;
}

/** Makes the function that publishes the thresholds that days and months have reached, in the transaction that adds to them. */
export function createPublishThresholds(quotas: ThresholdQuotas, deps: ThresholdDeps) {
  const { publish, cost, logger } = deps;
  const periods = durableCollection(deps.periods);
  const publishOrLog = createPublishOrLog(publish, logger);
  const thresholds = quotas.thresholds ?? accountRows['quotas.thresholds'].default;

  function amountOf(record: CountedRecord, unit: Quota['unit']): number {
    if (unit === 'requests') return requestsIn(record);
    return unit === 'credits' ? (cost?.(record) ?? 0) : record.inputTokens + record.outputTokens;
  }

  function crossed(addition: PeriodAddition, after: PeriodDocument): Crossing[] {
    const quota = quotas.quotaOf(after.userId);
    const limit = quota?.[after.period];
    if (!quota || limit === undefined) return [];
    const amounts = addition.records.map((record) => amountOf(record, quota.unit));
    const before = usedOf(after, quota.unit) - amounts.reduce((sum, amount) => sum + amount, 0);
    return crossings({
      before,
      amounts,
      quota: countedLimit(limit, quota.unit),
      thresholds,
      announced: after.announced ?? [],
    });
  }

  return async function publishThresholds(
    additions: readonly PeriodAddition[],
    session?: ClientSession,
  ): Promise<void> {
    const concerned = additions.filter(({ key }) => quotas.quotaOf(key.userId)?.[key.period] !== undefined);
    if (concerned.length === 0) return;
    const byId = new Map(concerned.map((addition) => [addition.key._id, addition]));
    const inSession = { ...(session && { session }) };
    const documents = await periods.find({ _id: { $in: [...byId.keys()] } }, inSession).toArray();
    for (const after of documents) {
      const { _id, userId, period, start } = after;
      const reached = crossed(byId.get(_id) as PeriodAddition, after);
      if (reached.length === 0) continue;
      for (const { threshold, usage: current_usage } of reached) {
        const data = { user_id: userId, threshold, current_usage, period };
        const idempotencyKey = `usage.threshold:${period}:${start}:${threshold}`;
        await publishOrLog({ type: 'usage.threshold', userId, data }, { idempotencyKey, ...inSession });
      }
      const announced = { $each: reached.map(({ threshold }) => threshold) };
      await periods.updateOne({ _id }, { $push: { announced } }, inSession);
    }
  };
}

/** The quota of an account; `undefined` for none. */
export type QuotaOf = (userId: string) => Quota | undefined;

/** Reads the option `quotas`. When the host's function fails, the account has no quota, and the log says why. */
export function createQuotaOf(quotas: QuotaOptions | undefined, logger: Logger): QuotaOf {
  return (userId) => {
    if (typeof quotas?.perUser !== 'function') return quotas?.perUser;
    try {
      const quota: unknown = quotas.perUser(userId);
      if (quota === undefined || quota === null) return undefined;
      if (quota instanceof Promise) {
        quota.catch(describeThrown);
        throw new TypeError('it must not be async');
      }
      const { unit, daily, monthly } = quota as Quota;
      const copy = { unit, ...(daily !== undefined && { daily }), ...(monthly !== undefined && { monthly }) };
      checkQuota(copy);
      return copy;
    } catch (error) {
      logger.error("the host's quotas.perUser failed", { error: describeThrown(error) });
      return undefined;
    }
  };
}

/** A quota in the unit that is counted: micro-credits for credits. Pure. */
function countedLimit(limit: number, unit: Quota['unit']): number {
  return unit === 'credits' ? limit * microCreditsPerCredit : limit;
}

/** What has been counted in a day or month, in the unit of a quota. Pure. */
function usedOf(period: PeriodDocument, unit: Quota['unit']): number {
  if (unit === 'requests') return period.requests;
  return unit === 'credits' ? (period.microCredits ?? 0) : period.inputTokens + period.outputTokens;
}

/** A threshold, and the usage that has reached it. Both in percent of the quota. */
interface Crossing {
  readonly threshold: number;
  readonly usage: number;
}

/** To two decimals. Pure. */
function percent(used: number, quota: number): number {
  return Math.round((used / quota) * 10_000) / 100;
}

/** The usage of one quota, as calls add to it. */
interface AddedUsage {
  /** The usage before these amounts. */
  readonly before: number;
  readonly amounts: readonly number[];
  readonly quota: number;
  readonly thresholds: readonly number[];
  /** Thresholds that are published already. */
  readonly announced: readonly number[];
}

/**
 * The thresholds that are reached while these amounts are added one by one, each at the first amount that reaches it. A
 * threshold that was passed before, under another quota, is reached at the first amount. Pure.
 */
export function crossings({ before, amounts, quota, thresholds, announced }: AddedUsage): Crossing[] {
  const missing = new Set([...thresholds].sort((a, b) => a - b).filter((threshold) => !announced.includes(threshold)));
  const reached: Crossing[] = [];
  let used = before;
  for (const amount of amounts) {
    used += amount;
    for (const threshold of missing) {
      if (used * 100 < threshold * quota) break;
      missing.delete(threshold);
      reached.push({ threshold, usage: percent(used, quota) });
    }
  }
  return reached;
}
