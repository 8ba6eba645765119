/**
 * Longer than the gateway's own connection looks for a server, and short enough that work goes on within 10 s of the
 * database's return. Milliseconds.
 */
const patience = 9_000;

/** What was asked for may have been done, and may still be. */
export class UnansweredError extends Error {
  override readonly name = 'UnansweredError';
}

/**
 * What the database answers, or an error when nobody tells what came of it. The driver (mongodb 7.8) never settles a command
 * whose connection is closed while the command waits to be written: it listens for `drain` and `error`, and a destroyed
 * socket may emit neither. For what would stand still for good behind such a command, and may be done again.
 * @param within milliseconds
 * @param keepsAlive whether waiting for it keeps the process alive
 */
export async function answered<T>(answer: Promise<T>, within = patience, keepsAlive = true): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new UnansweredError(`the database has not answered within ${within / 1_000} s`)),
      within,
    );
    if (!keepsAlive) timer.unref();
  });
  try {
    return await Promise.race([answer, silence]);
  } finally {
    clearTimeout(timer);
  }
}
