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
 * A job is done as soon as it has rung, so its lock need not last. Agenda also keeps a timer of half that time
 * for every job it ran, which keeps a process that wants to exit waiting. Milliseconds.
 */
const lockLifetime = 5_000;
/**
 * Jobs locked and run at the same time: a job only rings. What is beyond it waits for the next look, whatever becomes free in between;
 * and one that waits to be run until its lock lapses counts as locked for ever.
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
  /** Rings when a job is due by this process's clock. Never throws: Agenda would not run the job again. */
  readonly onBell: (bell: ScheduledRef) => void;
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
  /** Rings the bell in so many milliseconds, in whichever process comes first. Moves the job that the attempt has. Logs what fails. */
  schedule(bell: AttemptRef, wait: number): Promise<void>;
  /** Keeps a job for each of these, which are due and will begin as soon as there is a place. */
  keep(bells: readonly AttemptRef[]): void;
  /** The attempt, or any attempt of the delivery, need not be waited for any more. Never rejects. */
  remove(bell: Pick<AttemptRef, 'deliveryId'> & Partial<AttemptRef>): Promise<void>;
  /** Starts running jobs in this process. */
  start(): Promise<void>;
  /** Takes no more jobs, and leaves none locked. */
  stop(): Promise<void>;
}

/** Jobs kept by Agenda in the same database, on the same connection. */
export function createJobs(deps: JobsDeps): Jobs {
  const { connection, owner, collection, onBell, logger, indexInterval = usualIndexInterval } = deps;
  // bells need not survive anything, so they do not wait for a majority
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
    agenda.define<ScheduledRef>(name, async (job: Job<ScheduledRef>) => onBell(job.attrs.data));
  }

  async function save(name: string, bell: AttemptRef, wait: number): Promise<void> {
    const unique = { 'data.deliveryId': bell.deliveryId, 'data.attempt': bell.attempt };
    try {
      await agenda
        .create(name, bell)
        .unique(unique)
        .schedule(new Date(Date.now() + wait))
        .save();
    } catch (error) {
      logger.warn('a job was not stored; the sweep will start the attempt', { ...bell, reason: String(error) });
    }
  }

  const waiting = createWaitingJobs(async (bells) => {
    await Promise.all(bells.map((bell) => save(waitingJob, bell, 0)));
  });

  return {
    async init() {
      await Promise.all([buildIndexes(), agenda.ready]);
    },
    schedule: (bell, wait) => save(scheduledJob, bell, wait),
    keep: waiting.add,
    async remove({ deliveryId, attempt }) {
      if (waiting.drop(deliveryId)) return;
      const data = attempt === undefined ? { deliveryId } : { deliveryId, attempt };
      await agenda.cancel({ data }).catch((error: unknown) => {
        logger.warn('a job that nobody needs was not removed, and will ring in vain', { reason: String(error) });
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
