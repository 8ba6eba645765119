import { describeThrown } from '../../errors.ts';
import type { Logger } from '../../options/options.ts';
import { type AttemptBatch, addAttempt, newAttemptBatch } from './attempt-batch.ts';
import type { HealthModel, TallyModel } from './model.ts';
import type { RecordedAttempt } from './recorded-attempt.ts';
import { createWriteStatistics } from './write-statistics.ts';

/** Adds this process's attempts to the statistics. */
export interface Recorder {
  /** Notes an attempt in memory. */
  record(attempt: RecordedAttempt): void;
  /** Writes the noted attempts; resolves when they are written, or given up with a warning, and what they change is reported. */
  flush(): Promise<void>;
  /** Flushes for the last time. */
  close(): Promise<void>;
}

export interface RecorderDeps {
  readonly tallies: TallyModel;
  readonly healths: HealthModel;
  /** How long attempts are gathered; a process that is killed loses them. Milliseconds. */
  readonly interval: number;
  /** Called with the ids of the webhooks whose statistics were written. */
  readonly onWritten: (webhookIds: Iterable<string>) => Promise<void>;
  /** Called with failed attempts after they are written; if it rejects, it is called with them again. */
  readonly onFailures: (attempts: readonly RecordedAttempt[]) => Promise<void>;
  readonly logger: Logger;
}

/** The most failed attempts that are kept for another call. */
const maxKept = 1_000;

/** Gathers attempts in memory and adds those of all webhooks to the statistics together. */
export function createRecorder(deps: RecorderDeps): Recorder {
  const { tallies, healths, interval, onWritten, onFailures, logger } = deps;
  const writeStatistics = createWriteStatistics({ tallies, healths, logger });
  let batches = new Map<string, AttemptBatch>();
  let failed: RecordedAttempt[] = [];
  let timer: NodeJS.Timeout | null = null;
  let writing: Promise<unknown> = Promise.resolve();
  let reporting: Promise<void> = Promise.resolve();

  async function reportFailures(failures: readonly RecordedAttempt[]): Promise<void> {
    try {
      await onFailures(failures);
    } catch (error) {
      logger.warn('failing webhooks will be looked at again', { reason: describeThrown(error) });
      failed = [...failures, ...failed].slice(-maxKept);
      schedule();
    }
  }

  /** Writes what is noted. @returns what is to be reported of it */
  async function write() {
    const currentBatches = batches;
    const failures = failed;
    batches = new Map();
    failed = [];
    try {
      await writeStatistics(currentBatches);
    } catch (error) {
      logger.warn('statistics of attempts were lost', { webhooks: currentBatches.size, reason: String(error) });
    }
    return { webhookIds: currentBatches.keys(), failures };
  }

  async function report({ webhookIds, failures }: Awaited<ReturnType<typeof write>>): Promise<void> {
    await onWritten(webhookIds);
    if (failures.length > 0) await reportFailures(failures);
  }

  function flush(): Promise<void> {
    if (timer) clearTimeout(timer);
    timer = null;
    const writingNow = writing.then(write);
    writing = writingNow;
    // the next write does not wait for the reports
    reporting = Promise.all([writingNow, reporting]).then(([what]) => report(what));
    return reporting;
  }

  function schedule(): void {
    timer ??= setTimeout(flush, interval).unref();
  }

  return {
    record(attempt) {
      const batch = batches.get(attempt.webhookId) ?? newAttemptBatch();
      batches.set(attempt.webhookId, batch);
      addAttempt(batch, attempt);
      if (attempt.code !== undefined) failed.push(attempt);
      schedule();
    },
    flush,
    async close() {
      await flush();
      if (timer) clearTimeout(timer);
    },
  };
}
