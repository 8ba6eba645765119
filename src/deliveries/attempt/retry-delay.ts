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
