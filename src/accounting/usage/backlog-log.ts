import type { Logger } from '../../options/options.ts';

/** Logs once that usage records cannot be written, and once that some are lost; how many, when the database is back. */
export interface BacklogLog {
  failed(error: unknown): void;
  lost(): void;
  written(): void;
}

export function createBacklogLog(logger: Logger): BacklogLog {
  let failing = false;
  let lost = 0;
  return {
    failed(error) {
      const reason = String(error);
      if (!failing) logger.error('usage records could not be written and will be tried again', { reason });
      failing = true;
    },
    lost() {
      if (lost === 0) logger.error('more usage records wait than usageBacklog allows: the oldest are lost');
      lost += 1;
    },
    written() {
      if (failing || lost > 0) logger.warn('usage records are written again', { lost });
      failing = false;
      lost = 0;
    },
  };
}
