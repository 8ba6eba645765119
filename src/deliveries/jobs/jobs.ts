import { Agenda, type Job } from 'agenda';
import type { Connection } from 'mongoose';
import { createPeriodic } from '../../mongo/periodic.ts';
import { isDuplicateKey } from '../../mongo/writes/duplicate-key.ts';
import type { Logger } from '../../options/options.ts';
import type { AttemptRef, ScheduledRef } from '../attempt/attempt-ref.ts';
import { createJobsBackend } from './backend.ts';
import { createWaitingJobs } from './waiting-jobs.ts';

/** The job of an attempt that is due later, at the time at which it is due. */
const scheduledJob = 'delivery attempt';
/** The job of an attempt that is due and waits for a place. */
const waitingJob = 'waiting delivery attempt';

/**
 * A job only wakes the worker, so its lock need not last. Agenda also keeps a timer of half that time for every job it ran,
 * and a process that wants to exit waits for it. Milliseconds.
 */
const lockLifetime = 5_000;
/**
 * Jobs locked and run at the same time. Further jobs wait until Agenda looks again, even if some of these end sooner; and a
 * job whose lock lapses before it runs counts as locked for ever.
 */
const limit = 500;
/** How often Agenda looks for jobs of other processes: it hears of those that are due until its next look when they are. Milliseconds. */
const processEvery = 5_000;
/** After how long it is looked whether an attempt that waits for a place has been forgotten: its job says that it is due. Milliseconds. */
const forgottenAfter = 600_000;
/** How often it is looked whether the indexes are still there. Milliseconds. */
const usualIndexInterval = 10_000;

export interface JobsDeps {
  readonly connection: Connection;
  /** Names this process in the jobs it has locked. */
  readonly owner: string;
  /** The collection for the jobs alone. */
  readonly collection: string;
  /** Called when a job is due by this process's clock. Must not throw: Agenda would not run the job again. */
  readonly wake: (ref: ScheduledRef) => void;
  readonly logger: Logger;
  /** How often indexes are built that somebody has dropped. Milliseconds. @default 10_000 */
  readonly indexInterval?: number;
}

/**
 * One Agenda job for each stored attempt that waits, until it begins. Losing them all loses nothing:
 * the sweep reads the deliveries themselves.
 */
export interface Jobs {
  /** Builds the indexes. To be awaited before anything else. */
  init(): Promise<void>;
  /** Wakes a worker in so many milliseconds, in whichever process comes first. Moves the attempt's job if there is one. Logs failures. */
  schedule(ref: AttemptRef, wait: number): Promise<void>;
  /** Keeps a job for each of these attempts, which are due and begin as soon as there is a place. */
  scheduleWaiting(refs: readonly AttemptRef[]): void;
  /** The attempt, or any attempt of the delivery, need not be waited for any more. Never rejects. */
  remove(ref: Pick<AttemptRef, 'deliveryId'> & Partial<AttemptRef>): Promise<void>;
  /** Starts running jobs in this process. */
  start(): Promise<void>;
  /** Takes no more jobs, and leaves none locked. */
  stop(): Promise<void>;
}

/** Jobs kept by Agenda in the same database, on the same connection. */
export function createJobs(deps: JobsDeps): Jobs {
  const { connection, owner, collection, wake, logger, indexInterval = usualIndexInterval } = deps;
  // a lost job loses nothing, so no write waits for a majority
  const db = connection.getClient().db(connection.name, { writeConcern: { w: 1 }, readPreference: 'primary' });

  async function buildIndexes(): Promise<void> {
    const jobs = db.collection(collection);
    await jobs.createIndex({ name: 1, nextRunAt: 1, priority: -1, lockedAt: 1, disabled: 1 }, { name: 'next' });
    const oneOfEach = () =>
      jobs.createIndex({ 'data.deliveryId': 1, 'data.attempt': 1 }, { name: 'ofAttempt', unique: true });
    await oneOfEach().catch(async (error: unknown) => {
      if (!isDuplicateKey(error)) throw error;
      // somebody dropped the collection, and processes that were running went on without its indexes
      await jobs.deleteMany({});
      await oneOfEach();
    });
  }

  /** Who drops the collection takes the indexes along; without them, each job that is removed reads all others. */
  const upkeep = createPeriodic({
    name: 'building the indexes of jobs',
    task: buildIndexes,
    interval: indexInterval,
    // they were built right before
    initialDelay: indexInterval,
    logger,
  });

  const agenda = new Agenda({
    name: owner,
    backend: createJobsBackend(db, collection, { [waitingJob]: forgottenAfter }),
    processEvery,
    maxConcurrency: limit,
    defaultConcurrency: limit,
    lockLimit: limit,
    defaultLockLimit: limit,
    defaultLockLifetime: lockLifetime,
    removeOnComplete: true,
  });
  agenda.on('error', (error: unknown) => logger.warn('agenda', { reason: String(error) }));
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
      await Promise.all([buildIndexes(), agenda.ready]);
    },
    schedule: (ref, wait) => save(scheduledJob, ref, wait),
    scheduleWaiting: waiting.add,
    async remove({ deliveryId, attempt }) {
      if (waiting.drop(deliveryId)) return;
      const data = attempt === undefined ? { deliveryId } : { deliveryId, attempt };
      await agenda.cancel({ data }).catch((error: unknown) => {
        logger.warn('a job that nobody needs was not removed, and will run in vain', { reason: String(error) });
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
