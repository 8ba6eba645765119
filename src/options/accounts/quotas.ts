import { checkKeys, refuseOption } from '../checks.ts';

/** How much an account can use. An event tells it when it has used a part of that. */
export interface Quota {
  /** What is counted: tokens (input and output together), answered requests, or credits by the prices of the option `credits`. */
  readonly unit: 'tokens' | 'requests' | 'credits';
  /** In a day, UTC. @default no quota */
  readonly daily?: number;
  /** In a calendar month, UTC. @default no quota */
  readonly monthly?: number;
}

/** What `usage.threshold` is published by. */
export interface QuotaOptions {
  /** The same for every account, or a synchronous function of its user id; `undefined` is no quota. */
  readonly perUser: Quota | ((userId: string) => Quota | undefined);
  /** Percentages of the quota. When an account reaches one, `usage.threshold` is sent. @default [80, 100] */
  readonly thresholds?: readonly number[];
  /**
   * Whether calls are refused (429 `insufficient_quota`) once a quota is used up. What has been counted decides, about a second
   * after a call has ended: an account may exceed its quota by what it uses in that second, and by its calls under way. Credits
   * are exact. @default false
   */
  readonly enforce?: boolean;
}

const param = 'quotas.perUser';

/** @throws GatewayError `invalid_options` */
export function checkQuota(quota: Quota, hasPrices: boolean): void {
  if (typeof quota !== 'object' || quota === null)
    refuseOption(param, 'must be a quota, or a function that gives some');
  checkKeys(param, quota, ['unit', 'daily', 'monthly']);
  if (!['tokens', 'requests', 'credits'].includes(quota.unit)) {
    refuseOption(`${param}.unit`, "must be 'tokens', 'requests' or 'credits'");
  }
  if (quota.unit === 'credits' && !hasPrices)
    refuseOption(`${param}.unit`, "'credits' needs the option credits, for its prices");
  for (const period of ['daily', 'monthly'] as const) {
    const limit = quota[period];
    if (limit === undefined || (Number.isSafeInteger(limit) && limit > 0)) continue;
    refuseOption(`${param}.${period}`, `must be a whole number, 1 or more, not ${String(limit)}`);
  }
}

/**
 * Checks the option `quotas`.
 * @param hasPrices whether there is the option `credits`
 * @throws GatewayError `invalid_options`, naming the option
 */
export function checkQuotaOptions(quotas: QuotaOptions, hasPrices: boolean): void {
  if (typeof quotas !== 'object' || quotas === null) refuseOption('quotas', 'must be an object');
  checkKeys('quotas', quotas, ['perUser', 'thresholds', 'enforce']);
  if (quotas.enforce !== undefined && typeof quotas.enforce !== 'boolean')
    refuseOption('quotas.enforce', 'must be true or false');
  if (typeof quotas.perUser !== 'function') checkQuota(quotas.perUser, hasPrices);
  const { thresholds = [80] } = quotas;
  const valid = (threshold: unknown) => typeof threshold === 'number' && Number.isFinite(threshold) && threshold > 0;
  if (!Array.isArray(thresholds) || thresholds.length > 20 || !thresholds.every(valid)) {
    refuseOption('quotas.thresholds', 'must be a list of at most 20 percentages above 0');
  }
}
