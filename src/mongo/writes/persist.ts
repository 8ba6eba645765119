import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../../options/options.ts';
import { isUnavailable } from '../unavailable.ts';

/** The waits between tries: together longer than any election. The last one repeats. Milliseconds. */
const usualWaits: readonly number[] = [50, 100, 250, 500, 1_000, 2_000, 2_000, 2_000, 4_000, 4_000, 4_000];

export interface PersistDeps {
  readonly logger: Logger;
  /** Aborted when the gateway has closed: then nothing is retried. @default never */
  readonly closed?: AbortSignal | undefined;
  /** Milliseconds. @default 20 s in all */
  readonly waits?: readonly number[];
}

/**
 * Repeats a write for as long as the database is unavailable. Only for writes that do nothing the second time.
 * @throws any other error, if it stays after about 20 s of retries; the last error if the gateway has closed
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
      // a long outage must not fill the log
      if (wait !== undefined) logger.warn('a write is tried again', { reason: String(error) });
      await sleep(wait ?? waits.at(-1), undefined, closed && { signal: closed }).catch(() => {});
      if (closed?.aborted) throw error;
    }
  }
}
