import { createPeriodic, type Periodic } from '../../mongo/periodic.ts';
import { isDuplicateKey } from '../../mongo/writes/duplicate-key.ts';
import type { Logger } from '../../options/options.ts';
import { type Count, longestCount } from './count.ts';

export interface CountingDeps {
  readonly count: Count;
  /** How many records one count can add. */
  readonly batchSize: number;
  /** Milliseconds. */
  readonly interval: number;
  readonly logger: Logger;
}

/** Counts again and again, and at once where there is more than one count can add. */
export function createCounting({ count, batchSize, interval, logger }: CountingDeps): Periodic {
  async function task(): Promise<void> {
    try {
      if ((await count()) >= batchSize) counting.hurry();
    } catch (error) {
      // another process has made the same counter at the same moment: next time it is there
      if (!isDuplicateKey(error)) throw error;
    }
  }

  const counting = createPeriodic({ name: 'counting usage', task, interval, longestRun: longestCount, logger });
  return counting;
}
