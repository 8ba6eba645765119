import { answered } from '../answered.ts';
import { isDuplicateKey } from '../duplicate-key.ts';
import type { Logger } from '../options.ts';
import { type Count, longestCount } from './count.ts';

export interface CountingDeps {
  readonly count: Count;
  /** How many records one count can add. */
  readonly batchSize: number;
  /** Milliseconds. */
  readonly interval: number;
  readonly logger: Logger;
}

/** Counts again and again, never twice at once. */
export interface Counting {
  start(): void;
  /** Counts no more; resolves when a run under way has ended. */
  close(): Promise<void>;
}

export function createCounting({ count, batchSize, interval, logger }: CountingDeps): Counting {
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | undefined;
  let closed = false;
  let failing = false;

  async function run(): Promise<void> {
    try {
      while (!closed && (await answered(count(), longestCount)) >= batchSize);
      failing = false;
    } catch (error) {
      // another process has made the same counter at the same moment: next time it is there
      if (isDuplicateKey(error)) return;
      if (!failing) logger.warn('usage could not be counted and will be tried again', { reason: String(error) });
      failing = true;
    }
  }

  return {
    start() {
      timer ??= setInterval(() => {
        running ??= run().finally(() => {
          running = undefined;
        });
      }, interval).unref();
    },
    async close() {
      closed = true;
      clearInterval(timer);
      await running;
    },
  };
}
