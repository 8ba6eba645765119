import { isPromise } from 'node:util/types';
import type { ClientSession } from 'mongoose';
import { describeThrown } from '../errors.ts';
import type { EventInput, PublishOptions } from '../events/service.ts';
import { durableCollection } from '../mongo/collection.ts';
import { accountRows } from '../options/accounts.ts';
import type { Logger, Quota, QuotaOptions } from '../options/options.ts';
import { checkQuota } from '../options/resolve.ts';
import type { PeriodModel, UsageSums } from './model.ts';
import { microCreditsPerCredit } from './price.ts';
import { createPublishOrLog } from './publish-or-log.ts';
import { type AddedUsage, crossings, type PeriodAddition } from './sums.ts';

/** Quotas, and the percentages of them that events report. */
export interface ThresholdQuotas {
  readonly quotaOf: QuotaOf;
  /** @default [80, 100] */
  readonly thresholds: readonly number[] | undefined;
}

export interface ThresholdDeps {
  readonly periods: PeriodModel;
  readonly publish: (input: EventInput, options: PublishOptions) => Promise<unknown>;
  readonly logger: Logger;
}

/** What records have added to a day or month with a quota; both in the unit that is counted, which is micro-credits for credits. */
interface LimitedAmounts extends Pick<AddedUsage, 'quota' | 'amounts'> {
  readonly unit: Quota['unit'];
}

/** What usage comes to in the unit of a quota; micro-credits for credits. */
function amountOf(usage: UsageSums, unit: Quota['unit']): number {
  if (unit === 'requests') return usage.requests;
  return unit === 'credits' ? (usage.microCredits ?? 0) : usage.inputTokens + usage.outputTokens;
}

/** Makes the function that publishes the thresholds that days and months have reached, in the transaction that adds to them. */
export function createPublishThresholds(quotas: ThresholdQuotas, deps: ThresholdDeps) {
  const { publish, logger } = deps;
  const periods = durableCollection(deps.periods);
  const publishOrLog = createPublishOrLog(publish, logger);
  const thresholds = quotas.thresholds ?? accountRows['quotas.thresholds'].default;

  return async function publishThresholds(
    additions: readonly PeriodAddition[],
    session?: ClientSession,
  ): Promise<void> {
    const limited = new Map<string, LimitedAmounts>();
    for (const { key, added } of additions) {
      const quota = quotas.quotaOf(key.userId);
      const limit = quota?.[key.period];
      if (!quota || limit === undefined) continue;
      const { unit } = quota;
      const amounts = added.map((usage) => amountOf(usage, unit));
      limited.set(key._id, { unit, quota: unit === 'credits' ? limit * microCreditsPerCredit : limit, amounts });
    }
    if (limited.size === 0) return;
    const inSession = { ...(session && { session }) };
    const documents = await periods.find({ _id: { $in: [...limited.keys()] } }, inSession).toArray();
    for (const after of documents) {
      const { _id, userId, period, start, announced = [] } = after;
      const { unit, quota, amounts } = limited.get(_id) as LimitedAmounts;
      const before = amountOf(after, unit) - amounts.reduce((sum, amount) => sum + amount, 0);
      const reached = crossings({ before, amounts, quota, thresholds, announced });
      if (reached.length === 0) continue;
      for (const { threshold, usage: current_usage } of reached) {
        const data = { user_id: userId, threshold, current_usage, period };
        const idempotencyKey = `usage.threshold:${period}:${start}:${threshold}`;
        await publishOrLog({ type: 'usage.threshold', userId, data }, { idempotencyKey, ...inSession });
      }
      const published = { $each: reached.map(({ threshold }) => threshold) };
      await periods.updateOne({ _id }, { $push: { announced: published } }, inSession);
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
      if (isPromise(quota)) {
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
