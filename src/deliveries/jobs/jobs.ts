import type { Job } from 'agenda';
import type { Connection } from 'mongoose';
import { createPeriodic } from '../../mongo/periodic.ts';
import { buildIndexesOf } from '../../mongo/schema/indexes.ts';
import type { Logger } from '../../options/options.ts';
import type { AttemptRef, ScheduledRef } from '../attempt/attempt-ref.ts';
import { createAgenda, jobsDb } from './create-agenda.ts';
import { jobIndexes } from './indexes.ts';
import { createWaitingJobs } from './waiting-jobs.ts';

/** The job of an attempt that is due later; it runs when the attempt is due. */
const scheduledJob = 'delivery attempt';
/** The job of an attempt that is due and waits for a place. */
const waitingJob = 'waiting delivery attempt';

/**
 * Jobs locked and run at the same time. Further jobs wait until Agenda looks again, even if some of these end sooner; and a
 * job whose lock lapses before it runs counts as locked permanently.
 */
const limit = 500;
/** When the job of an attempt that waits for a place runs: by then the attempt may have been forgotten. Milliseconds. */
const forgottenAfter = 600_000;
/** How often the indexes are built, in case they were dropped. Milliseconds. */
const usualIndexInterval = 10_000;

export interface JobsDeps {
  readonly connection: Connection;
  /** Names this process in the jobs that it locks. */
  readonly owner: string;
  /** What stands before the name of the collection `jobs`, which holds nothing but jobs. */
  readonly collectionPrefix: string;
  /** Called when a job is due by this process's clock. Must not throw: Agenda would not run the job again. */
  readonly wake: (ref: ScheduledRef) => void;
  readonly logger: Logger;
  /** How often the indexes are built, in case they were dropped. Milliseconds. @default 10_000 */
  readonly indexInterval?: number;
}

/**
 * One Agenda job for each stored attempt that waits, until the attempt begins. Losing all jobs loses nothing, because the sweep
 * reads the deliveries themselves.
 */
export interface Jobs {
  /** Await it before anything else. */
  init(): Promise<void>;
  /** Wakes a worker in so many milliseconds, in whichever process comes first. Moves the attempt's job if there is one. Logs failures. */
  schedule(ref: AttemptRef, wait: number): Promise<void>;
  /** Keeps a job for each of these attempts, which are due and begin as soon as there is a place. */
  scheduleWaiting(refs: readonly AttemptRef[]): void;
  /** Removes the job of the attempt, or of any attempt of the delivery. Never rejects. */
  remove(ref: Pick<AttemptRef, 'deliveryId'> & Partial<AttemptRef>): Promise<void>;
  /** Starts running jobs in this process. */
  start(): Promise<void>;
  /** Takes no more jobs, and leaves none locked. */
  stop(): Promise<void>;
}

/** Runs Agenda in the same database, on the same connection. */
export function createJobs(deps: JobsDeps): Jobs {
  const { connection, owner, wake, logger, indexInterval = usualIndexInterval } = deps;
  const needed = jobIndexes(deps.collectionPrefix);
  const db = jobsDb(connection);

  /** Dropping the collection drops the indexes; without them, removing a job reads all others. */
  const upkeep = createPeriodic({
    name: 'building the indexes of jobs',
    task: () => buildIndexesOf(db, needed),
    interval: indexInterval,
    // they have just been built
    initialDelay: indexInterval,
    logger,
  });

  const delays = { [waitingJob]: forgottenAfter };
  const agenda = createAgenda({ db, owner, collection: needed.collection, limit, delays, logger });
  for (const name of [scheduledJob, waitingJob]) {
    agenda.define<ScheduledRef>(name, async (job: Job<ScheduledRef>) => wake(job.attrs.data));
  }

  async function save(name: string, ref: AttemptRef, wait: number): Promise<void> {
    const unique = { 'data.deliveryId': ref.deliveryId, 'data.attempt': ref.attempt };
    try {
      await agenda
        .create(name, ref)
        .unique(unique)
        .schedule(new Date(Date.now() + wait))
        .save();
    } catch (error) {
      logger.warn('a job was not stored; the sweep will start the attempt', { ...ref, reason: String(error) });
    }
  }

  const waiting = createWaitingJobs(async (refs) => {
    await Promise.all(refs.map((ref) => save(waitingJob, ref, 0)));
  });

  return {
    async init() {
      await agenda.ready;
    },
    schedule: (ref, wait) => save(scheduledJob, ref, wait),
    scheduleWaiting: waiting.add,
    async remove({ deliveryId, attempt }) {
      if (waiting.drop(deliveryId)) return;
      const data = attempt === undefined ? { deliveryId } : { deliveryId, attempt };
      await agenda.cancel({ data }).catch((error: unknown) => {
        logger.warn('a job that is not needed any more was not removed; it will change nothing', {
          reason: String(error),
        });
      });
    },
    async start() {
      upkeep.start();
      await agenda.start();
    },
    async stop() {
      await Promise.all([waiting.close(), upkeep.stop()]);
      await agenda.stop();
    },
  };
}
