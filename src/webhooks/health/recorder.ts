import { describeThrown } from '../../errors.ts';
import { durableCollection } from '../../mongo/collection.ts';
import { failuresIn } from '../../mongo/writes/duplicate-key.ts';
import { createSetAsideLog, isItemFailure } from '../../mongo/writes/item-failure.ts';
import { writeIsolated } from '../../mongo/writes/write-isolated.ts';
import type { Logger } from '../../options/options.ts';
import { addAttempt, type Batch, type MadeAttempt, newBatch } from './batch.ts';
import type { HealthModel, TallyModel } from './model.ts';

/** Adds this process's attempts to the statistics. */
export interface Recorder {
  /** Notes an attempt in memory. */
  record(attempt: MadeAttempt): void;
  /** Writes the noted attempts; resolves when they are written, or given up with a warning. */
  flush(): Promise<void>;
  /** Flushes for the last time. */
  close(): Promise<void>;
}

export interface RecorderDeps {
  readonly tallies: TallyModel;
  readonly healths: HealthModel;
  /** How long attempts are gathered; a process that is killed loses them. Milliseconds. */
  readonly interval: number;
  /** Called with failed attempts after they are written; if it rejects, it is called with them again. */
  readonly onFailures: (attempts: readonly MadeAttempt[]) => Promise<void>;
  readonly logger: Logger;
}

const epoch = new Date(0);
/** Failures that are kept for another call. */
const maxRetold = 1_000;

const options = { ordered: false, writeConcern: { w: 1 } } as const;

/** Writes the batches of some webhooks. */
type WritePart = (part: readonly (readonly [string, Batch])[]) => Promise<unknown>;

function tallyWrites(webhookId: string, { hours }: Batch) {
  return [...hours].map(([start, { succeeded, failed, durations }]) => {
    const hour = new Date(start);
    const counts = Object.fromEntries([...durations].map(([bucket, count]) => [`durations.${bucket}`, count]));
    return {
      updateOne: {
        filter: { _id: `${webhookId}:${hour.toISOString()}` },
        update: { $set: { hour }, $inc: { succeeded, failed, ...counts } },
        upsert: true,
      },
    };
  });
}

/** Several processes write about one webhook, in any order: the newer value stays. */
function healthWrite(webhookId: string, { lastSuccessAt, lastFailure, failingSince, failures }: Batch) {
  const known = (field: string) => ({ $ifNull: [field, epoch] });
  const isLater = (moment: Date | string) => ({ $gt: [moment, known('$lastSuccessAt')] });
  const oldRun = { $and: [{ $gt: ['$failingSince', null] }, isLater('$failingSince')] };
  const newRun = failingSince ? isLater(failingSince) : false;
  return {
    updateOne: {
      filter: { _id: webhookId },
      update: [
        {
          $set: {
            lastSuccessAt: { $max: ['$lastSuccessAt', lastSuccessAt] },
            ...(lastFailure && {
              lastFailure: {
                $cond: [
                  { $gte: [lastFailure.at, known('$lastFailure.at')] },
                  { $literal: lastFailure },
                  '$lastFailure',
                ],
              },
            }),
            updatedAt: '$$NOW',
          },
        },
        {
          $set: {
            failures: {
              $add: [{ $cond: [oldRun, { $ifNull: ['$failures', 0] }, 0] }, { $cond: [newRun, failures, 0] }],
            },
            failingSince: {
              $ifNull: [
                { $min: [{ $cond: [oldRun, '$failingSince', null] }, { $cond: [newRun, failingSince, null] }] },
                '$$REMOVE',
              ],
            },
          },
        },
      ],
      upsert: true,
    },
  };
}

/** Gathers attempts in memory and adds them to the tallies in one write for all webhooks. */
export function createRecorder({ tallies, healths, interval, onFailures, logger }: RecorderDeps): Recorder {
  const tallyCollection = durableCollection(tallies);
  const healthCollection = durableCollection(healths);
  const logSetAside = createSetAsideLog(logger, 'statistics of attempts cannot be written and were left out');
  let batches = new Map<string, Batch>();
  let failed: MadeAttempt[] = [];
  let timer: NodeJS.Timeout | null = null;
  let flushing: Promise<void> = Promise.resolve();

  /** Skips what cannot be written. A batch that fails for another reason is lost, because a second write might count it twice. */
  async function write(taken: ReadonlyMap<string, Batch>, writePart: WritePart): Promise<void> {
    const outcomes = await writeIsolated([...taken], {
      async write(part) {
        try {
          await writePart(part);
        } catch (error) {
          // the other items are written
          for (const failure of failuresIn(error).values()) logSetAside(failure);
        }
        return [];
      },
    });
    for (const outcome of outcomes) {
      if ('result' in outcome) continue;
      if (!isItemFailure(outcome.error)) throw outcome.error;
      logSetAside(outcome.error);
    }
  }

  const writeTallies: WritePart = (part) =>
    tallyCollection.bulkWrite(
      part.flatMap(([id, batch]) => tallyWrites(id, batch)),
      options,
    );
  const writeHealth: WritePart = (part) =>
    healthCollection.bulkWrite(
      part.map(([id, batch]) => healthWrite(id, batch)),
      options,
    );

  async function tell(failures: readonly MadeAttempt[]): Promise<void> {
    try {
      await onFailures(failures);
    } catch (error) {
      logger.warn('failing webhooks will be looked at again', { reason: describeThrown(error) });
      failed = [...failures, ...failed].slice(-maxRetold);
      later();
    }
  }

  async function flushOnce(): Promise<void> {
    const taken = batches;
    const failures = failed;
    batches = new Map();
    failed = [];
    try {
      await Promise.all([write(taken, writeTallies), write(taken, writeHealth)]);
    } catch (error) {
      logger.warn('statistics of attempts were lost', { webhooks: taken.size, reason: String(error) });
    }
    if (failures.length > 0) await tell(failures);
  }

  function flush(): Promise<void> {
    if (timer) clearTimeout(timer);
    timer = null;
    flushing = flushing.then(flushOnce);
    return flushing;
  }

  function later(): void {
    timer ??= setTimeout(flush, interval).unref();
  }

  return {
    record(attempt) {
      const batch = batches.get(attempt.webhookId) ?? newBatch();
      batches.set(attempt.webhookId, batch);
      addAttempt(batch, attempt);
      if (attempt.code !== undefined) failed.push(attempt);
      later();
    },
    flush,
    async close() {
      await flush();
      if (timer) clearTimeout(timer);
    },
  };
}
