import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../options.ts';

/** The waits between tries, in milliseconds; together longer than any election of a new primary. */
const waits: readonly number[] = [50, 100, 250, 500, 1_000, 2_000, 2_000, 2_000, 4_000, 4_000, 4_000];

/**
 * Repeats a write until the database takes it. For writes that do nothing the second time.
 * @throws the last error when some 20 s of tries did not help
 */
export async function persist<T>(write: () => Promise<T>, logger: Logger): Promise<T> {
  for (const wait of waits) {
    try {
      return await write();
    } catch (error) {
      logger.warn('a write is tried again', { reason: String(error) });
      await sleep(wait);
    }
  }
  return write();
}
