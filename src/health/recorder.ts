import { answered } from '../answered.ts';
import { durableCollection } from '../collection.ts';
import type { Logger } from '../options.ts';
import { addAttempt, type Batch, type MadeAttempt, newBatch } from './batch.ts';
import type { HealthModel, TallyModel } from './model.ts';

/** The attempts of this process on their way into the statistics. */
export interface Recorder {
  /** Notes an attempt. Costs nothing but memory. */
  record(attempt: MadeAttempt): void;
  /** Writes what has been noted; resolves when it is written, or has been given up with a warning. */
  flush(): Promise<void>;
  /** Flushes for the last time. */
  close(): Promise<void>;
}

export interface RecorderDeps {
  readonly tallies: TallyModel;
  readonly healths: HealthModel;
  /** How long attempts are gathered. A process that is killed takes so much of them with it. Milliseconds. */
  readonly interval: number;
  /** Told of failed attempts after they are written; when it rejects, it is told of them again. */
  readonly onFailures: (attempts: readonly MadeAttempt[]) => Promise<void>;
  readonly logger: Logger;
}

const epoch = new Date(0);
/** Failures that are kept to be told of again. */
const mostRetold = 1_000;

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

/** Several processes write about one webhook, in no order: what is newer stands. */
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
  let batches = new Map<string, Batch>();
  let failed: MadeAttempt[] = [];
  let timer: NodeJS.Timeout | null = null;
  let flushing: Promise<void> = Promise.resolve();

  async function write(taken: ReadonlyMap<string, Batch>): Promise<void> {
    const options = { ordered: false, writeConcern: { w: 1 } };
    await Promise.all([
      tallyCollection.bulkWrite(
        [...taken].flatMap(([id, batch]) => tallyWrites(id, batch)),
        options,
      ),
      healthCollection.bulkWrite(
        [...taken].map(([id, batch]) => healthWrite(id, batch)),
        options,
      ),
    ]);
  }

  async function tell(failures: readonly MadeAttempt[]): Promise<void> {
    try {
      await onFailures(failures);
    } catch (error) {
      logger.warn('failing webhooks will be looked at again', { reason: String(error) });
      failed = [...failures, ...failed].slice(-mostRetold);
      later();
    }
  }

  async function flushOnce(): Promise<void> {
    const taken = batches;
    const failures = failed;
    batches = new Map();
    failed = [];
    try {
      if (taken.size > 0) await answered(write(taken));
    } catch (error) {
      // written again, they might count twice
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
