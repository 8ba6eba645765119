import type { Connection } from 'mongoose';
import { createAgenda, jobsDb, nextJob } from '../mongo/agenda.ts';
import { createPeriodic } from '../mongo/periodic.ts';
import { buildIndexesOf, type CollectionIndexes } from '../mongo/schema/indexes.ts';
import type { Logger } from '../options/options.ts';
import type { AttemptRef, WebhookRef } from './model.ts';

const jobName = 'delivery attempt';
/**
 * Jobs locked and run at the same time. Further jobs wait until Agenda looks again, even if some of these end sooner; and a
 * job whose lock lapses before it runs counts as locked permanently.
 */
const limit = 500;
/** How often the indexes are built, in case they were dropped. Milliseconds. */
const usualIndexInterval = 10_000;

/** The indexes of the jobs of delivery attempts: collection `<prefix>jobs`. */
export function jobIndexes(prefix: string): CollectionIndexes {
  const ofAttempt = { key: { 'data.deliveryId': 1, 'data.attempt': 1 }, name: 'ofAttempt', unique: true } as const;
  return { collection: `${prefix}jobs`, indexes: [nextJob, ofAttempt], isDisposable: true };
}

export interface JobsDeps {
  readonly connection: Connection;
  /** Names this process in the jobs that it locks. */
  readonly owner: string;
  /** What stands before the name of the collection `jobs`, which holds nothing but jobs. */
  readonly collectionPrefix: string;
  readonly logger: Logger;
  /** How often the indexes are built, in case they were dropped. Milliseconds. @default 10_000 */
  readonly indexInterval?: number;
}

/** What a job names: jobs of earlier versions do not name the account. */
type JobData = Omit<AttemptRef, 'userId'> & Partial<Pick<WebhookRef, 'userId'>>;

/** One Agenda job for each attempt that lies in the future. It only wakes a process: the delivery decides what is due. */
export interface Jobs {
  /** Await it before anything else. */
  init(): Promise<void>;
  /** Wakes a process in so many milliseconds, whichever comes first. Moves the attempt's job if there is one. Logs failures. */
  schedule(attempt: AttemptRef, wait: number): Promise<void>;
  /** Removes the jobs of a delivery. Never rejects. */
  remove(deliveryId: string): Promise<void>;
  /** Runs jobs in this process from now on. @param wake called when a job is due by this process's clock. Must not throw. */
  start(wake: (webhook: { readonly webhookId: string; readonly userId?: string }) => void): Promise<void>;
  /** Takes no more jobs, and leaves none locked. */
  stop(): Promise<void>;
}

/** Runs Agenda in the same database, on the same connection. */
export function createJobs(deps: JobsDeps): Jobs {
  const { connection, owner, logger, indexInterval = usualIndexInterval } = deps;
  const needed = jobIndexes(deps.collectionPrefix);
  const db = jobsDb(connection);
  const agenda = createAgenda({ db, owner, collection: needed.collection, limit, logger });

  /** Dropping the collection drops the indexes; without them, removing a job reads all others. */
  const upkeep = createPeriodic({
    name: 'building the indexes of jobs',
    task: () => buildIndexesOf(db, needed),
    interval: indexInterval,
    // they have just been built
    initialDelay: indexInterval,
    logger,
  });

  return {
    async init() {
      await agenda.ready;
    },
    async schedule(attempt, wait) {
      try {
        await agenda
          .create(jobName, attempt)
          .unique({ 'data.deliveryId': attempt.deliveryId, 'data.attempt': attempt.attempt })
          .schedule(new Date(Date.now() + wait))
          .save();
      } catch (error) {
        logger.warn('a job was not stored; the sweep will start the attempt', { ...attempt, reason: String(error) });
      }
    },
    async remove(deliveryId) {
      await agenda.cancel({ data: { deliveryId } }).catch((error: unknown) => {
        const reason = String(error);
        logger.warn('a job that is not needed any more was not removed; it will change nothing', { reason });
      });
    },
    async start(wake) {
      agenda.define<JobData>(jobName, async ({ attrs: { data } }) => wake(data));
      upkeep.start();
      await agenda.start();
    },
    async stop() {
      await upkeep.stop();
      await agenda.stop();
    },
  };
}
