import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../options.ts';

/** The waits between tries, in milliseconds; together longer than any election of a new primary. */
const waits: readonly number[] = [50, 100, 250, 500, 1_000, 2_000, 2_000, 2_000, 4_000, 4_000, 4_000];

export interface PersistDeps {
  readonly logger: Logger;
  /** Aborted when the gateway has closed: nothing is tried again from then on. @default never */
  readonly closed?: AbortSignal | undefined;
}

/**
 * Repeats a write until the database takes it. For writes that do nothing the second time.
 * @throws the last error when some 20 s of waits between tries did not help, or the gateway has closed
 */
export async function persist<T>(write: () => Promise<T>, { logger, closed }: PersistDeps): Promise<T> {
  for (const wait of waits) {
    try {
      return await write();
    } catch (error) {
      if (closed?.aborted) throw error;
      logger.warn('a write is tried again', { reason: String(error) });
      await sleep(wait, undefined, closed && { signal: closed }).catch(() => {});
      if (closed?.aborted) throw error;
    }
  }
  return write();
}
