import { describeThrown } from '../errors.ts';
import { createSetAsideLog, itemFailures, writeIsolated } from '../mongo/batcher.ts';
import { durableCollection } from '../mongo/collection.ts';
import { bucketOf, hourOf } from '../mongo/durations.ts';
import { failuresIn } from '../mongo/writes.ts';
import type { Logger } from '../options/options.ts';
import type { Failure, HealthModel, TallyModel } from './model.ts';

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
export function createRecorder(deps: RecorderDeps) {
  const { interval, onWritten, onFailures, logger } = deps;
  const writeStatistics = createWriteStatistics(deps);
  let batches = new Map<string, AttemptBatch>();
  let failed: RecordedAttempt[] = [];
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<unknown> = Promise.resolve();
  let reporting: Promise<void> = Promise.resolve();

  /** Writes what is noted. @returns what is to be reported of it */
  async function write() {
    const [written, failures] = [batches, failed];
    batches = new Map();
    failed = [];
    await writeStatistics(written).catch((error: unknown) => {
      logger.warn('statistics of attempts were lost', { webhooks: written.size, reason: String(error) });
    });
    return { webhookIds: written.keys(), failures };
  }

  async function report({ webhookIds, failures }: Awaited<ReturnType<typeof write>>): Promise<void> {
    await onWritten(webhookIds);
    if (failures.length === 0) return;
    await onFailures(failures).catch((error: unknown) => {
      logger.warn('failing webhooks will be looked at again', { reason: describeThrown(error) });
      failed = [...failures, ...failed].slice(-maxKept);
      timer ??= setTimeout(flush, interval).unref();
    });
  }

  /** Writes the noted attempts; resolves when they are written, or given up with a warning, and what they change is reported. */
  function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    const writingNow = writing.then(write);
    writing = writingNow;
    // the next write does not wait for the reports
    reporting = Promise.all([writingNow, reporting]).then(([what]) => report(what));
    return reporting;
  }

  return {
    /** Notes an attempt in memory. */
    record(attempt: RecordedAttempt): void {
      const batch = batches.get(attempt.webhookId) ?? newAttemptBatch();
      batches.set(attempt.webhookId, batch);
      addAttempt(batch, attempt);
      if (attempt.code !== undefined) failed.push(attempt);
      timer ??= setTimeout(flush, interval).unref();
    },
    flush,
    /** Flushes for the last time. */
    async close(): Promise<void> {
      await flush();
      clearTimeout(timer);
    },
  };
}

/** One webhook's attempts of one hour. */
interface Hour {
  succeeded: number;
  failed: number;
  readonly durations: Map<number, number>;
}

/** One webhook's attempts since the last flush. */
interface AttemptBatch {
  /** By the hour's start, in milliseconds. */
  readonly hours: Map<number, Hour>;
  lastSuccessAt: Date | null;
  lastFailure: Failure | null;
  /** The first failure after the last success. */
  failingSince: Date | null;
  /** Failures after the last success. */
  failures: number;
}

function newAttemptBatch(): AttemptBatch {
  return { hours: new Map(), lastSuccessAt: null, lastFailure: null, failingSince: null, failures: 0 };
}

/** Adds an attempt. Attempts arrive roughly in the order of their ends. */
function addAttempt(batch: AttemptBatch, { at, deliveryId, durationMs, status, code }: RecordedAttempt): void {
  const start = hourOf(at.getTime());
  const hour = batch.hours.get(start) ?? { succeeded: 0, failed: 0, durations: new Map<number, number>() };
  batch.hours.set(start, hour);
  hour[code === undefined ? 'succeeded' : 'failed'] += 1;
  const bucket = bucketOf(durationMs);
  hour.durations.set(bucket, (hour.durations.get(bucket) ?? 0) + 1);

  if (code !== undefined && (!batch.lastFailure || batch.lastFailure.at <= at)) {
    batch.lastFailure = { at, deliveryId, ...(status !== undefined && { status }), code };
  }
  if (batch.lastSuccessAt && batch.lastSuccessAt >= at) return;
  if (code !== undefined) {
    batch.failures += 1;
    if (!batch.failingSince || batch.failingSince > at) batch.failingSince = at;
    return;
  }
  batch.lastSuccessAt = at;
  if (batch.failingSince && batch.failingSince > at) return;
  batch.failingSince = null;
  batch.failures = 0;
}

export interface RecordedAttempt {
  readonly webhookId: string;
  readonly deliveryId: string;
  /** When it ended, by the database's clock. */
  readonly at: Date;
  readonly durationMs: number;
  /** Absent if the receiver did not answer. */
  readonly status?: number;
  /** Why it failed; absent if it succeeded. */
  readonly code?: string;
  /** How long after the time when it was due it began, by the database's clock; absent if it was asked for. Milliseconds. */
  readonly lateness?: number;
}

type BatchOf = readonly [webhookId: string, batch: AttemptBatch];

const options = { ordered: false, writeConcern: { w: 1 } } as const;

function tallyWrites([webhookId, { hours }]: BatchOf) {
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
function healthWrite([webhookId, { lastSuccessAt, lastFailure, failingSince, failures }]: BatchOf) {
  const orEpoch = (field: string) => ({ $ifNull: [field, new Date(0)] });
  const isLater = (moment: Date | string) => ({ $gt: [moment, orEpoch('$lastSuccessAt')] });
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
                  { $gte: [lastFailure.at, orEpoch('$lastFailure.at')] },
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

/** Makes the function that adds the batches of all webhooks, by their ids: their tallies in one write, their health in another. */
function createWriteStatistics({ tallies, healths, logger }: Pick<RecorderDeps, 'tallies' | 'healths' | 'logger'>) {
  const tallyCollection = durableCollection(tallies);
  const healthCollection = durableCollection(healths);
  const logSetAside = createSetAsideLog(logger, 'statistics of attempts cannot be written and were left out');

  /** Skips what cannot be written. A batch that fails for another reason is lost, because a second write might count it twice. */
  async function write(all: readonly BatchOf[], writePart: (part: readonly BatchOf[]) => Promise<unknown>) {
    const outcomes = await writeIsolated(all, {
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
    for (const [, error] of itemFailures(all, outcomes)) logSetAside(error);
  }

  return async function writeStatistics(batches: ReadonlyMap<string, AttemptBatch>): Promise<void> {
    const all = [...batches];
    await Promise.all([
      write(all, (part) => tallyCollection.bulkWrite(part.flatMap(tallyWrites), options)),
      write(all, (part) => healthCollection.bulkWrite(part.map(healthWrite), options)),
    ]);
  };
}
