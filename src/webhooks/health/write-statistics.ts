import { durableCollection } from '../../mongo/collection.ts';
import { failuresIn } from '../../mongo/writes/duplicate-key.ts';
import { createSetAsideLog } from '../../mongo/writes/item-failure.ts';
import { itemFailures, writeIsolated } from '../../mongo/writes/write-isolated.ts';
import type { Logger } from '../../options/options.ts';
import type { AttemptBatch } from './attempt-batch.ts';
import type { HealthModel, TallyModel } from './model.ts';

export interface WriteStatisticsDeps {
  readonly tallies: TallyModel;
  readonly healths: HealthModel;
  readonly logger: Pick<Logger, 'error'>;
}

/** Adds the batches of some webhooks, by their ids, to the statistics in the database. */
export type WriteStatistics = (batches: ReadonlyMap<string, AttemptBatch>) => Promise<void>;

const epoch = new Date(0);

const options = { ordered: false, writeConcern: { w: 1 } } as const;

function tallyWrites(webhookId: string, { hours }: AttemptBatch) {
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
function healthWrite(webhookId: string, { lastSuccessAt, lastFailure, failingSince, failures }: AttemptBatch) {
  const orEpoch = (field: string) => ({ $ifNull: [field, epoch] });
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

type BatchOf = readonly [webhookId: string, batch: AttemptBatch];

/** Makes the function that writes all webhooks together: their tallies in one write, their health in another. */
export function createWriteStatistics({ tallies, healths, logger }: WriteStatisticsDeps): WriteStatistics {
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

  return async function writeStatistics(batches) {
    const all = [...batches];
    await Promise.all([
      write(all, (part) =>
        tallyCollection.bulkWrite(
          part.flatMap(([id, batch]) => tallyWrites(id, batch)),
          options,
        ),
      ),
      write(all, (part) =>
        healthCollection.bulkWrite(
          part.map(([id, batch]) => healthWrite(id, batch)),
          options,
        ),
      ),
    ]);
  };
}
