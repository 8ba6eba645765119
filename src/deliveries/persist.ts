import { setTimeout as sleep } from 'node:timers/promises';
import { isUnavailable } from '../database-unavailable.ts';
import type { Logger } from '../options.ts';

/** The waits between tries, in milliseconds; together longer than any election of a new primary. The last one repeats. */
const usualWaits: readonly number[] = [50, 100, 250, 500, 1_000, 2_000, 2_000, 2_000, 4_000, 4_000, 4_000];

export interface PersistDeps {
  readonly logger: Logger;
  /** Aborted when the gateway has closed: nothing is tried again from then on. @default never */
  readonly closed?: AbortSignal | undefined;
  /** Milliseconds. @default 20 s in all */
  readonly waits?: readonly number[];
}

/**
 * Repeats a write until the database takes it, however long it is unavailable. For writes that do nothing the second time.
 * @throws what goes wrong otherwise, when waiting some 20 s in all between tries did not help; the last error when the gateway has closed
 */
export async function persist<T>(
  write: () => Promise<T>,
  { logger, closed, waits = usualWaits }: PersistDeps,
): Promise<T> {
  for (let tries = 0; ; tries += 1) {
    try {
      return await write();
    } catch (error) {
      const isLast = tries >= waits.length && !isUnavailable(error);
      if (isLast || closed?.aborted) throw error;
      // an outage would fill the log
      if (tries < waits.length) logger.warn('a write is tried again', { reason: String(error) });
      await sleep(waits[tries] ?? waits.at(-1), undefined, closed && { signal: closed }).catch(() => {});
      if (closed?.aborted) throw error;
    }
  }
}
