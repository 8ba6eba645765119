import { describeThrown, GatewayError } from '../../errors.ts';
import type { Principal } from '../../http/operation.ts';
import type { LimitOptions, RateLimits, RateLimitsFor } from '../../options/options.ts';
import { type LimitUsage, rateLimitHeaders } from './headers.ts';
import { type MinuteCounter, type MinuteCounters, untilNextMinute } from './minute-counters.ts';

/** One admitted call: the headers of its answer, and how its tokens are settled. */
export interface LimitAdmission {
  readonly headers: Readonly<Record<string, string>>;
  /** Replaces the estimate by what the call has used. */
  closed(used: { readonly inputTokens: number; readonly outputTokens: number }): void;
  /** Gives the estimate back; the request still counts. */
  dropped(): void;
}

/**
 * Counts a call of this principal; `undefined` where nothing limits it.
 * @throws GatewayError `rate_limit_exceeded` with `retry-after`, `retry-after-ms` and OpenAI's headers; nothing is counted then
 */
export type Admit = (principal: Principal, estimatedTokens: number) => LimitAdmission | undefined;

export interface LimiterDeps {
  readonly options: Pick<LimitOptions, 'perKey' | 'perUser'>;
  readonly counters: MinuteCounters;
  /** A call was refused because of this limit, in requests or tokens per minute. */
  readonly onRefused: (principal: Principal, limit: number) => void;
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

function limitsOf(given: RateLimitsFor | undefined, principal: Principal): RateLimits | undefined {
  if (typeof given !== 'function') return given;
  const limits: unknown = given(principal);
  if (limits instanceof Promise) {
    limits.catch(describeThrown);
    throw new TypeError('the functions in the option limits must not be async');
  }
  // what `condition && limits` evaluates to
  if (limits === undefined || limits === null || limits === false) return undefined;
  // a number, or a query that is not awaited, has no limit in it and would remove all limits
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

/** Adds what has been used of one key's or account's limits. */
function addLimitUsages(usages: LimitUsage[], { limits, counter }: AppliedLimits): void {
  const { requestsPerMinute, tokensPerMinute } = limits;
  if (requestsPerMinute !== undefined) {
    usages.push({ kind: 'requests', limit: requestsPerMinute, used: counter.used('requests') });
  }
  if (tokensPerMinute !== undefined) {
    usages.push({ kind: 'tokens', limit: tokensPerMinute, used: counter.used('tokens') });
  }
}

/** Pure. */
function limitUsagesOf(bounds: readonly AppliedLimits[]): LimitUsage[] {
  const usages: LimitUsage[] = [];
  for (const bound of bounds) addLimitUsages(usages, bound);
  return usages;
}

/** Pure. */
function exhaustedLimit({
  limits: { requestsPerMinute, tokensPerMinute },
  counter,
}: AppliedLimits): LimitUsage | undefined {
  const requests = counter.used('requests');
  if (requestsPerMinute !== undefined && requests >= requestsPerMinute) {
    return { kind: 'requests', limit: requestsPerMinute, used: requests };
  }
  const tokens = counter.used('tokens');
  if (tokensPerMinute !== undefined && tokens >= tokensPerMinute) {
    return { kind: 'tokens', limit: tokensPerMinute, used: tokens };
  }
  return undefined;
}

function rateLimitError(
  { whose }: AppliedLimits,
  { limit, kind }: LimitUsage,
  headers: Record<string, string>,
  wait: number,
) {
  const seconds = Math.ceil(wait / 1_000);
  return new GatewayError(
    'rate_limit_exceeded',
    `Rate limit reached: ${limit} ${kind} per minute for this ${whose}; try again in ${seconds} s`,
    { headers: { ...headers, 'retry-after': String(seconds), 'retry-after-ms': String(Math.ceil(wait)) } },
  );
}

/** Decides in memory and at once; see {@link LimitOptions}`.shared` for what other processes count. */
export function createLimiter({ options, counters, onRefused, now = Date.now }: LimiterDeps): Admit {
  function appliedLimitsOf(principal: Principal, at: number): AppliedLimits[] {
    const bounds: AppliedLimits[] = [];
    const { userId, keyId } = principal;
    const ofKey = keyId === undefined ? undefined : limitsOf(options.perKey, principal);
    if (ofKey) bounds.push({ whose: 'API key', limits: ofKey, counter: counters.of(`key:${keyId}`, at) });
    const ofUser = limitsOf(options.perUser, principal);
    if (ofUser) bounds.push({ whose: 'account', limits: ofUser, counter: counters.of(`user:${userId}`, at) });
    return bounds;
  }

  /** A call may end in a later minute than it began in: tokens beyond the estimate count there, tokens below it are not given back. */
  function settle(bounds: readonly AppliedLimits[], difference: number): void {
    for (const { counter } of bounds) {
      const present = counters.of(counter.subject, now());
      if (present === counter || difference > 0) present.tokens += difference;
    }
  }

  return function admit(principal, estimatedTokens) {
    const at = now();
    const bounds = appliedLimitsOf(principal, at);
    if (bounds.length === 0) return undefined;
    const wait = untilNextMinute(at);
    for (const bound of bounds) {
      const exhausted = exhaustedLimit(bound);
      if (!exhausted) continue;
      onRefused(principal, exhausted.limit);
      throw rateLimitError(bound, exhausted, rateLimitHeaders(limitUsagesOf(bounds), wait), wait);
    }
    for (const { counter } of bounds) {
      counter.requests += 1;
      counter.tokens += estimatedTokens;
    }
    return {
      headers: rateLimitHeaders(limitUsagesOf(bounds), wait),
      closed: ({ inputTokens, outputTokens }) => settle(bounds, inputTokens + outputTokens - estimatedTokens),
      dropped: () => settle(bounds, -estimatedTokens),
    };
  };
}
