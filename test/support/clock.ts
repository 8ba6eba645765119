/**
 * Does this while a clock stands still, so that all of it falls into one minute, window or day, however long it takes: `Date`, or
 * `performance`, by which durations are measured. The timers and the database's clock run on.
 */
export async function whileClockStands<T>(work: () => T | Promise<T>, clock: { now(): number } = Date): Promise<T> {
  const { now } = clock;
  const at = clock.now();
  try {
    clock.now = () => at;
    return await work();
  } finally {
    clock.now = now;
  }
}
