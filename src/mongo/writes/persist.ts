import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../../options/options.ts';
import { isUnavailable } from '../unavailable.ts';

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
  const failures = { unavailable: 0, other: 0 };
  for (;;) {
    try {
      return await write();
    } catch (error) {
      const kind = isUnavailable(error) ? 'unavailable' : 'other';
      const wait = waits[failures[kind]];
      failures[kind] += 1;
      const isLast = kind === 'other' && wait === undefined;
      if (isLast || closed?.aborted) throw error;
      // an outage would fill the log
      if (wait !== undefined) logger.warn('a write is tried again', { reason: String(error) });
      await sleep(wait ?? waits.at(-1), undefined, closed && { signal: closed }).catch(() => {});
      if (closed?.aborted) throw error;
    }
  }
}
