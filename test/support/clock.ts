/**
 * Does this while `Date.now()` stands still, so that all of it falls into one minute, window or day, however long it takes. The
 * timers and the database's clock run on.
 */
export async function whileClockStands<T>(work: () => T | Promise<T>): Promise<T> {
  const { now } = Date;
  const at = now();
  try {
    Date.now = () => at;
    return await work();
  } finally {
    Date.now = now;
  }
}
