import { isPromise } from 'node:util/types';
import { anthropicPath, describeThrown, GatewayError } from '../errors.ts';
import { untilNextMinute } from '../fairness/minute-windows.ts';
import type { LimitOptions, RateLimits, RateLimitsFor, RequestedOutput, UsageRecord } from '../options/options.ts';
import type { Principal } from '../options/principal.ts';
import type { Admission } from '../proxy/admission.ts';
import type { MinuteCounter, MinuteCounters } from './minute-counters.ts';

/** Its end replaces the estimate by what the call has used, or gives the estimate back; the request still counts. */
interface LimitAdmission extends Admission {
  readonly headers: Readonly<Record<string, string>>;
  closed(used: Pick<UsageRecord, 'inputTokens' | 'outputTokens'>): void;
}

/**
 * Counts a call of this principal; `undefined` if nothing limits it.
 * @param endpoint says by which names its client reads of limits. @default OpenAI's
 * @throws GatewayError `rate_limit_exceeded` with `retry-after`, `retry-after-ms` and OpenAI's headers; then nothing is counted
 */
export type Admit = (
  principal: Principal,
  estimatedTokens: number,
  output?: Pick<RequestedOutput, 'counts'>,
  endpoint?: string,
) => LimitAdmission | undefined;

export interface LimiterDeps {
  readonly options: Pick<LimitOptions, 'perKey' | 'perUser'>;
  readonly counters: MinuteCounters;
  /** Called for each refused call with the limit that it met, in requests or tokens per minute. */
  readonly onRefused: (principal: Principal, limit: number) => void;
  /** Called whenever calls are admitted or have ended. @param isNear whether a counter is near its limit. @default nothing is done */
  readonly onCounted?: (isNear: boolean) => void;
  /** Milliseconds since 1970. @default Date.now */
  readonly now?: () => number;
}

/** A key's or an account's limits, and what it has used of them. */
interface AppliedLimits {
  readonly whose: 'API key' | 'account';
  readonly limits: RateLimits;
  readonly counter: MinuteCounter;
}

function isLimit(limit: unknown): boolean {
  return limit === undefined || (typeof limit === 'number' && limit >= 0);
}

/**
 * The limits that an option sets for a principal.
 * @throws TypeError if a host's function gives none of them
 */
export function limitsOf(option: RateLimitsFor | undefined, principal: Principal): RateLimits | undefined {
  if (typeof option !== 'function') return option;
  const limits: unknown = option(principal);
  if (isPromise(limits)) {
    limits.catch(describeThrown);
    throw new TypeError('the functions in the option limits must not be async');
  }
  // `condition && limits` may be any of these
  if (limits === undefined || limits === null || limits === false) return undefined;
  // a number, or a query that was not awaited, has no limits as fields: it would remove all limits
  if (
    typeof limits !== 'object' ||
    Array.isArray(limits) ||
    typeof (limits as { then?: unknown }).then === 'function'
  ) {
    throw new TypeError('the functions in the option limits must give numbers of 0 or more in an object');
  }
  const { requestsPerMinute, tokensPerMinute } = limits as RateLimits;
  if (isLimit(requestsPerMinute) && isLimit(tokensPerMinute)) return limits as RateLimits;
  throw new TypeError('the functions in the option limits must give numbers of 0 or more');
}

/** What is limited, and by which option. */
const kinds = [
  { kind: 'requests', option: 'requestsPerMinute' },
  { kind: 'tokens', option: 'tokensPerMinute' },
] as const;

/** One limit, and what has been used of it. */
interface LimitUsage extends Pick<AppliedLimits, 'whose'> {
  readonly kind: (typeof kinds)[number]['kind'];
  readonly limit: number;
  used: number;
}

function limitUsagesOf(applied: readonly AppliedLimits[]): LimitUsage[] {
  const usages: LimitUsage[] = [];
  for (const { whose, limits, counter } of applied) {
    for (const { kind, option } of kinds) {
      const limit = limits[option];
      if (limit !== undefined) usages.push({ whose, kind, limit, used: counter.used(kind) });
    }
  }
  return usages;
}

function isNear({ limits, counter }: Omit<AppliedLimits, 'whose'>): boolean {
  return counter.isNear('requests', limits.requestsPerMinute) || counter.isNear('tokens', limits.tokensPerMinute);
}

function rateLimitError({ whose, limit, kind }: LimitUsage, headers: Record<string, string>, wait: number) {
  const seconds = Math.ceil(wait / 1_000);
  const unit = limit === 1 ? kind.slice(0, -1) : kind;
  return new GatewayError(
    'rate_limit_exceeded',
    `Rate limit reached: ${limit} ${unit} per minute for this ${whose}; try again in ${seconds} s`,
    { headers: { ...headers, 'retry-after': String(seconds), 'retry-after-ms': String(Math.ceil(wait)) } },
  );
}

/** Decides in memory, at once. {@link LimitOptions}`.shared` says when it includes what other processes count. */
export function createLimiter({ options, counters, onRefused, onCounted, now = () => Date.now() }: LimiterDeps): Admit {
  function appliedLimitsOf(principal: Principal, at: number): AppliedLimits[] {
    const applied: AppliedLimits[] = [];
    const { userId, keyId } = principal;
    const ofKey = keyId === undefined ? undefined : limitsOf(options.perKey, principal);
    if (ofKey) applied.push({ whose: 'API key', limits: ofKey, counter: counters.of(`key:${keyId}`, at) });
    const ofUser = limitsOf(options.perUser, principal);
    if (ofUser) applied.push({ whose: 'account', limits: ofUser, counter: counters.of(`user:${userId}`, at) });
    return applied;
  }

  /** A call may end in a later minute: there, tokens beyond the estimate count, but tokens below it are not given back. */
  function settle(applied: readonly AppliedLimits[], difference: number): void {
    let isAnyNear = false;
    for (const { limits, counter } of applied) {
      const present = counters.of(counter.subject, now());
      if (present === counter || difference > 0) present.tokens += difference;
      isAnyNear ||= isNear({ limits, counter: present });
    }
    onCounted?.(isAnyNear);
  }

  return function admit(principal, estimatedTokens, { counts = 'request' } = {}, endpoint = '') {
    if (counts === 'nothing') return undefined;
    const isRequest = counts === 'request';
    const at = now();
    const applied = appliedLimitsOf(principal, at);
    if (applied.length === 0) return undefined;
    const wait = untilNextMinute(at);
    const usages = limitUsagesOf(applied);
    const headers = () => rateLimitHeaders(usages, wait, anthropicPath.test(endpoint) ? at + wait : undefined);
    const exhausted = usages.find(({ kind, limit, used }) => used >= limit && (isRequest || kind === 'tokens'));
    if (exhausted) {
      onRefused(principal, exhausted.limit);
      throw rateLimitError(exhausted, headers(), wait);
    }
    for (const { counter } of applied) {
      if (isRequest) counter.requests += 1;
      counter.tokens += estimatedTokens;
    }
    for (const usage of usages) usage.used += usage.kind === 'requests' ? Number(isRequest) : estimatedTokens;
    onCounted?.(applied.some(isNear));
    return {
      headers: headers(),
      closed: ({ inputTokens, outputTokens }) => settle(applied, inputTokens + outputTokens - estimatedTokens),
      dropped: () => settle(applied, -estimatedTokens),
    };
  };
}

/** A duration as OpenAI writes it: `250ms`, `12.5s`. */
function duration(ms: number): string {
  return ms < 1_000 ? `${Math.ceil(ms)}ms` : `${Math.ceil(ms) / 1_000}s`;
}

function remaining({ limit, used }: LimitUsage): number {
  return Math.max(0, limit - used);
}

/**
 * OpenAI's `x-ratelimit-*` headers (its API reference, "Rate limits in headers"), and where they are asked for Anthropic's beside them (its API
 * reference, "Rate limits", "Response headers"). Of several limits of a kind, they show the one with the least left.
 * @param resetIn milliseconds until the limits start anew
 * @param resetAt the same as a time, in milliseconds since 1970, for Anthropic's headers; `undefined` for none of these
 */
function rateLimitHeaders(
  usages: readonly LimitUsage[],
  resetIn: number,
  resetAt: number | undefined,
): Record<string, string> {
  const headers: Record<string, string> = {};
  const reset = duration(resetIn);
  for (const { kind } of kinds) {
    let least: LimitUsage | undefined;
    for (const usage of usages) {
      if (usage.kind === kind && (!least || remaining(usage) < remaining(least))) least = usage;
    }
    if (!least) continue;
    const limit = String(least.limit);
    const left = String(remaining(least));
    headers[`x-ratelimit-limit-${kind}`] = limit;
    headers[`x-ratelimit-remaining-${kind}`] = left;
    headers[`x-ratelimit-reset-${kind}`] = reset;
    if (resetAt === undefined) continue;
    headers[`anthropic-ratelimit-${kind}-limit`] = limit;
    headers[`anthropic-ratelimit-${kind}-remaining`] = left;
    headers[`anthropic-ratelimit-${kind}-reset`] = new Date(resetAt).toISOString();
  }
  return headers;
}
