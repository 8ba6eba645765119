import { retryAfterWait } from '../../outbound/retry-after.ts';

/** The longest that a receiver's `Retry-After` can postpone the next attempt. Milliseconds. */
const longestWait = 24 * 3_600_000;

/**
 * The time from the end of attempt `attempt` to the next one, in milliseconds.
 * @param delays the waits before attempts 2, 3, …; the last one repeats
 */
export function delayAfter(attempt: number, delays: readonly number[]): number {
  return delays[attempt - 1] ?? delays.at(-1) ?? 0;
}

/** The number of attempts of a delivery: one at once, and one after each delay. A test event gets one. */
export function attemptsAllowed(delays: readonly number[], test: boolean): number {
  return test ? 1 : delays.length + 1;
}

/** What a receiver asked for in its answer. */
export interface RequestedWait {
  /** Its `Retry-After`, as it came. */
  readonly retryAfter: string | undefined;
  /** When the attempt ended, in milliseconds since the epoch. */
  readonly endedAt: number;
}

/**
 * The later of the schedule's delay and what the receiver asked for, the latter at most 24 hours. In milliseconds from the end of the
 * attempt. Pure.
 */
export function honoringRetryAfter(delay: number, { retryAfter, endedAt }: RequestedWait): number {
  const requested = retryAfterWait(retryAfter, endedAt) ?? 0;
  return Math.max(delay, Math.ceil(Math.min(requested, longestWait)));
}
