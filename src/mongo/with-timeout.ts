/** Longer than the driver looks for a server, and short enough to resume within 10 s of the database's return. Milliseconds. */
const defaultTimeout = 9_000;

/** The database did not answer in time. The operation may have been done, or may still be done. */
export class TimeoutError extends Error {
  override readonly name = 'TimeoutError';
}

/**
 * Resolves or rejects as `answer` does, or rejects when the database does not answer in time. The driver (mongodb 7.8)
 * never settles a command whose connection closes while the command waits to be written: it listens for `drain` and
 * `error`, and a destroyed socket may emit neither. Use it where such a command would block everything behind it, and
 * only for work that may be repeated.
 * @param timeout milliseconds
 * @param keepsAlive whether the wait keeps the process alive
 * @throws TimeoutError
 */
export async function withTimeout<T>(answer: Promise<T>, timeout = defaultTimeout, keepsAlive = true): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new TimeoutError(`the database has not answered within ${timeout / 1_000} s`)),
      timeout,
    );
    if (!keepsAlive) timer.unref();
  });
  try {
    return await Promise.race([answer, expired]);
  } finally {
    clearTimeout(timer);
  }
}
