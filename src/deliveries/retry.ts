import type { ResolvedOptions } from '../options/options.ts';
import { retryAfterWait } from '../outbound/retry-after.ts';
import { type AttemptResult, type Next, startOf } from './claims.ts';
import type { Claim } from './model.ts';

/** When failed attempts are made again. */
export type RetryRules = Pick<ResolvedOptions, 'retryDelays'> &
  Partial<Pick<ResolvedOptions['deliveries'], 'honorRetryAfter'>>;

/** What follows a scheduled attempt. */
export function nextAfter(
  claim: Pick<Claim, 'delivery' | 'claimedAt'>,
  result: AttemptResult,
  { retryDelays, honorRetryAfter }: RetryRules,
): Next {
  const { delivery } = claim;
  const { code, retryAfter, durationMs } = result;
  if (code === undefined) return { state: 'delivered' };
  if (delivery.attempt >= delivery.maxAttempts) return { state: 'failed' };
  const delay = delayAfter(delivery.attempt, retryDelays);
  if (!honorRetryAfter) return { retryIn: delay };
  return { retryIn: honoringRetryAfter(delay, { retryAfter, endedAt: startOf(claim, result).getTime() + durationMs }) };
}

/** The number of attempts of a delivery: one at once, and one after each delay. A test event gets one. */
export function attemptsAllowed(delays: readonly number[], test: boolean): number {
  return test ? 1 : delays.length + 1;
}

/** The time from the end of attempt `attempt` to the next one, in milliseconds. */
export function delayAfter(attempt: number, delays: RetryRules['retryDelays']): number {
  return delays[attempt - 1] ?? delays.at(-1) ?? 0;
}

/** The longest that a receiver's `Retry-After` can postpone the next attempt. Milliseconds. */
const longestWait = 24 * 3_600_000;

/**
 * The later of the schedule's delay and what the receiver asked for, the latter at most 24 hours. In milliseconds from the end of the
 * attempt, `endedAt`, which is in milliseconds since the epoch.
 */
function honoringRetryAfter(
  delay: number,
  { retryAfter, endedAt }: { readonly retryAfter: string | undefined; readonly endedAt: number },
): number {
  const requested = retryAfterWait(retryAfter, endedAt) ?? 0;
  return Math.max(delay, Math.ceil(Math.min(requested, longestWait)));
}
