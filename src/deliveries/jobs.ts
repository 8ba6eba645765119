import { createPeriodic } from '../mongo/periodic.ts';
import { buildIndexesOf, type CollectionIndexes } from '../mongo/schema/indexes.ts';
import { createWakeUps, jobsDb, nextJob, type WakeUps, type WakeUpsDeps } from '../mongo/wake-ups.ts';
import type { ResolvedOptions } from '../options/options.ts';
import type { AttemptRef, WebhookRef } from './model.ts';

/** The indexes of the jobs of delivery attempts: collection `<prefix>jobs`. */
export function jobIndexes(prefix: string): CollectionIndexes {
  const ofAttempt = { key: { 'data.deliveryId': 1, 'data.attempt': 1 }, name: 'ofAttempt', unique: true } as const;
  return { collection: `${prefix}jobs`, indexes: [nextJob, ofAttempt], isDisposable: true };
}

export interface JobsDeps
  extends Pick<WakeUpsDeps<JobData>, 'connection' | 'owner'>,
    Pick<ResolvedOptions, 'collectionPrefix' | 'logger'> {
  /** How often the indexes are built, in case they were dropped. Milliseconds. @default 10_000 */
  readonly indexInterval?: number;
}

/** What a job names: jobs of earlier versions do not name the account. */
type JobData = Omit<AttemptRef, 'userId'> & Partial<Pick<WebhookRef, 'userId'>>;

/** One Agenda job for each attempt that lies in the future. It only wakes a process: the delivery decides what is due. */
export interface Jobs extends Omit<WakeUps<JobData>, 'remove'> {
  /** Removes the jobs of a delivery. Never rejects. */
  remove(deliveryId: string): Promise<void>;
}

export function createJobs(deps: JobsDeps): Jobs {
  const { connection, logger, indexInterval = 10_000 } = deps;
  const needed = jobIndexes(deps.collectionPrefix);
  const jobs = createWakeUps<JobData>({
    ...deps,
    name: 'delivery attempt',
    collection: needed.collection,
    key: ['deliveryId', 'attempt'],
    limit: 500,
    notStored: 'a job was not stored; the sweep will start the attempt',
  });

  /** Dropping the collection drops the indexes; without them, removing a job reads all others. */
  const upkeep = createPeriodic({
    name: 'building the indexes of jobs',
    task: () => buildIndexesOf(jobsDb(connection), needed),
    interval: indexInterval,
    // they have just been built
    initialDelay: indexInterval,
    logger,
  });

  return {
    ...jobs,
    async remove(deliveryId) {
      await jobs.remove({ deliveryId }).catch((error: unknown) => {
        const reason = String(error);
        logger.warn('a job that is not needed any more was not removed; it will change nothing', { reason });
      });
    },
    async start(wake) {
      upkeep.start();
      await jobs.start(wake);
    },
    async stop() {
      await upkeep.stop();
      await jobs.stop();
    },
  };
}
