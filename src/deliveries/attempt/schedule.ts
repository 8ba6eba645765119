/**
 * How long after the end of attempt `attempt` the next one is due, in milliseconds.
 * @param delays the waits before attempts 2, 3, …; the last one stands for any beyond
 * @see interface.md, Events, rule 4
 */
export function delayAfter(attempt: number, delays: readonly number[]): number {
  return delays[attempt - 1] ?? delays.at(-1) ?? 0;
}

/** How many attempts a delivery gets: one at once, and one after each delay. A test event gets one. */
export function attemptsAllowed(delays: readonly number[], test: boolean): number {
  return test ? 1 : delays.length + 1;
}
