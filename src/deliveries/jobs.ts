import { Agenda, InMemoryNotificationChannel, type Job, type JobId } from 'agenda';
import type { Connection } from 'mongoose';
import { isDuplicateKey } from '../duplicate-key.ts';
import type { Logger } from '../options.ts';
import { createPeriodic } from '../periodic.ts';
import { createAlarms } from './alarms.ts';
import type { AttemptRef, ScheduledRef } from './attempt-ref.ts';
import { createJobsBackend } from './jobs-backend.ts';
import { toStoredJob } from './jobs-store.ts';
import { createWaitingJobs } from './waiting-jobs.ts';

const jobName = 'delivery attempt';

/**
 * A job is done as soon as it has rung, so its lock need not last. Agenda also keeps a timer of half that time
 * for every job it ran, which keeps a process that wants to exit waiting. Milliseconds.
 */
const lockLifetime = 5_000;
/** Jobs run at the same time. A job only rings, so this bounds round trips, not attempts. */
const runAtOnce = 50;
/** Jobs locked at the same time. What is beyond it waits for the next look, whatever becomes free in between. */
const lockLimit = 1_000;
/** How often Agenda looks for jobs of other processes, which a sweep finds sooner. Its own are told to it at once. Milliseconds. */
const processEvery = 5_000;
/** Jobs of this process due within so long are started on time; later ones by the next look. Milliseconds. */
const alarmHorizon = 30_000;
/** When a job rings whose attempt is due and waits for a place: only if it was forgotten. Milliseconds. */
const forgottenAfter = 600_000;
/** How often it is looked whether the indexes are still there. Milliseconds. */
const usualIndexInterval = 10_000;
/** Jobs of one fan-out that are inserted at the same time. */
const insertsAtOnce = 500;

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
 * One Agenda job for each attempt that waits, until it begins; what begins at once has nothing to wait for. Losing them all loses nothing:
 * the sweep reads the deliveries themselves.
 */
export interface Jobs {
  /** Builds the indexes. To be awaited before anything else. */
  init(): Promise<void>;
  /** Rings the bells in so many milliseconds, in whichever process comes first. Logs what fails. */
  schedule(bells: readonly AttemptRef[], wait: number): Promise<void>;
  /** Keeps a job for each of these, which are due and will begin here as soon as there is a place. */
  keep(bells: readonly AttemptRef[]): void;
  /** An attempt has begun without its job having rung: the job has nothing to wait for any more. Never rejects. */
  begun(bell: AttemptRef): Promise<void>;
  /** Starts running jobs in this process. */
  start(): Promise<void>;
  /** Takes no more jobs. */
  stop(): Promise<void>;
  /** After the last attempt has ended: leaves no job locked behind. */
  release(): Promise<void>;
}

/** Jobs kept by Agenda in the same database, on the same connection. */
export function createJobs({
  connection,
  owner,
  collection,
  onBell,
  logger,
  indexInterval = usualIndexInterval,
}: JobsDeps): Jobs {
  // bells need not survive anything, so they do not wait for a majority
  const owned = { name: jobName, lastModifiedBy: owner } as const;
  const db = connection.getClient().db(connection.name, { writeConcern: { w: 1 }, readPreference: 'primary' });
  let agenda: Agenda | null = null;
  const channel = new InMemoryNotificationChannel();
  const backend = createJobsBackend(db, collection);
  const alarms = createAlarms();
  let stopped = false;

  async function buildIndexes(): Promise<void> {
    const jobs = db.collection(collection);
    await jobs.createIndex({ name: 1, nextRunAt: 1, priority: -1, lockedAt: 1, disabled: 1 }, { name: 'next' });
    // a waiting job for an attempt stands for any other; one that runs has no nextRunAt
    const oneBell = () =>
      jobs.createIndex(
        { 'data.deliveryId': 1, 'data.attempt': 1 },
        { name: 'oneBell', unique: true, partialFilterExpression: { nextRunAt: { $type: 'date' } } },
      );
    await oneBell().catch(async (error: unknown) => {
      if (!isDuplicateKey(error)) throw error;
      // somebody dropped the collection, and processes that were running went on without its indexes
      await jobs.deleteMany({});
      await oneBell();
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

  function createAgenda(): Agenda {
    const made = new Agenda({
      name: owner,
      backend,
      notificationChannel: channel,
      processEvery,
      maxConcurrency: runAtOnce,
      defaultConcurrency: runAtOnce,
      lockLimit,
      defaultLockLimit: lockLimit,
      defaultLockLifetime: lockLifetime,
      removeOnComplete: true,
    });
    made.on('error', (error: unknown) => logger.warn('agenda', { reason: String(error) }));
    made.define<ScheduledRef>(jobName, async (job: Job<ScheduledRef>) => onBell(job.attrs.data));
    return made;
  }

  /** Has Agenda look for jobs that are due. */
  function look(): void {
    const now = new Date();
    const notified = channel.publish({ jobId: '' as JobId, jobName, nextRunAt: now, priority: 0, timestamp: now });
    notified.catch((error: unknown) => logger.warn('agenda', { reason: String(error) }));
  }

  /** As `agenda.schedule` stores a job, without what it does for each one besides. */
  async function insert(bell: AttemptRef, nextRunAt: Date): Promise<void> {
    const job = { name: jobName, data: bell, type: 'normal', priority: 0, nextRunAt } as const;
    try {
      await backend.store.insert(toStoredJob(job, owner));
    } catch (error) {
      if (isDuplicateKey(error)) return;
      logger.warn('a job was not stored; the sweep will start the attempt', { ...bell, reason: String(error) });
    }
  }

  async function insertAll(bells: readonly AttemptRef[], at: Date): Promise<void> {
    for (let i = 0; i < bells.length && !stopped; i += insertsAtOnce) {
      await Promise.all(bells.slice(i, i + insertsAtOnce).map((bell) => insert(bell, at)));
    }
  }

  const waiting = createWaitingJobs((bells) => insertAll(bells, new Date(Date.now() + forgottenAfter)));

  return {
    async init() {
      await buildIndexes();
      agenda ??= createAgenda();
      await agenda.ready;
    },
    async schedule(bells, wait) {
      const at = new Date(Date.now() + wait);
      await insertAll(bells, at);
      if (channel.state === 'connected' && wait < alarmHorizon) alarms.set(at.getTime(), look);
    },
    keep: waiting.add,
    async begun(bell) {
      if (waiting.drop(bell)) return;
      await backend.store.removeFor(bell).catch((error: unknown) => {
        logger.warn('a job that nobody needs was not removed, and will ring in vain', { reason: String(error) });
      });
    },
    async start() {
      await agenda?.start();
      if (!stopped) upkeep.start();
    },
    async stop() {
      await Promise.all([waiting.flush(), upkeep.stop()]);
      stopped = true;
      alarms.clear();
      await agenda?.stop(false);
    },
    async release() {
      await backend.quiesce();
      // Agenda forgets the jobs it was just locking or running when it was stopped
      const soon = new Date(Date.now() + 2 * processEvery);
      await db.collection(collection).deleteMany({ ...owned, nextRunAt: null });
      await db.collection(collection).updateMany({ ...owned, nextRunAt: { $lte: soon } }, { $set: { lockedAt: null } });
    },
  };
}
