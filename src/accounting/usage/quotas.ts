import { describeThrown } from '../../errors.ts';
import type { Logger, Quota, QuotaOptions } from '../../options/options.ts';
import { checkQuota } from '../../options/resolve.ts';
import { microCreditsPerCredit } from '../micro-credits.ts';
import type { PeriodDocument } from './model.ts';

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
export function countedLimit(limit: number, unit: Quota['unit']): number {
  return unit === 'credits' ? limit * microCreditsPerCredit : limit;
}

/** What has been counted in a day or month, in the unit of a quota. Pure. */
export function usedOf(period: PeriodDocument, unit: Quota['unit']): number {
  if (unit === 'requests') return period.requests;
  return unit === 'credits' ? (period.microCredits ?? 0) : period.inputTokens + period.outputTokens;
}
