import { type JobParameters, type JobRepository, toJobId } from 'agenda';
import type { Connection } from 'mongoose';
import { inOneBatch } from '../collection.ts';
import { failuresIn } from '../duplicate-key.ts';
import { createGroup } from '../group-commit.ts';
import type { AttemptRef } from './attempt-ref.ts';

/** Jobs written or removed at once. */
const most = 500;
/** Jobs locked at once. */
const mostLocked = 200;
/** How long jobs that nobody waits for wait for others, to be written or removed with them. Milliseconds. */
const linger = 10;

/** An ObjectId as text. */
const jobId = /^[0-9a-f]{24}$/i;

/** Where jobs are kept. */
export type JobsDb = ReturnType<ReturnType<Connection['getClient']>['db']>;

/** A job as it lies in the collection. */
export type StoredJob = Omit<JobParameters, '_id'> & { readonly _id: { toHexString(): string } };
type Inserted = { readonly job: StoredJob } | { readonly error: unknown };

/** Every field that Agenda's own backend stores, and leaves empty. */
const emptyFields = {
  lockedAt: null,
  lastFinishedAt: null,
  failedAt: null,
  failCount: null,
  failReason: null,
  repeatTimezone: null,
  lastRunAt: null,
  repeatInterval: null,
  repeatAt: null,
  disabled: null,
  progress: null,
  debounceStartedAt: null,
  fork: null,
  startDate: null,
  endDate: null,
  skipDays: null,
} as const;

/** A new job as Agenda's own backend stores it. */
export function toStoredJob(job: JobParameters, lastModifiedBy: string): object {
  const { _id, unique, uniqueOpts, ...given } = job;
  return { ...emptyFields, ...given, lastModifiedBy };
}

/** A stored job as Agenda has it. */
export function toParameters({ _id, ...job }: StoredJob): JobParameters {
  const filled = Object.entries(job).filter(([, value]) => value !== null);
  return { ...(Object.fromEntries(filled) as unknown as JobParameters), _id: toJobId(_id.toHexString()) };
}

/** What Agenda does with single jobs, done with many at a time. */
export interface JobsStore {
  /** Rejects with code 11000 where the attempt has a job already. */
  insert(job: object): Promise<StoredJob>;
  remove(id: string): Promise<void>;
  /** Removes the job that waits for an attempt, if there is one. */
  removeFor(bell: AttemptRef): Promise<void>;
  /**
   * Locks a job that is due, or was locked before the deadline by a process that died. As many as there are get locked in
   * three round trips, and are handed out one by one.
   */
  lockNext(name: string, owner: string, lockDeadline: Date): Promise<JobParameters | undefined>;
}

/** Jobs in grouped writes. None of them waits for a majority: bells need not survive anything. */
export function createJobsStore(db: JobsDb, name: string, inner: Pick<JobRepository, 'removeJobs'>): JobsStore {
  const collection = db.collection(name, { ignoreUndefined: true });
  const locked: JobParameters[] = [];
  let locking: Promise<void> | null = null;

  const inserts = createGroup<object, Inserted>({
    most,
    linger,
    async write(jobs) {
      const documents = jobs.map((job) => ({ ...job })) as unknown as StoredJob[];
      try {
        await collection.insertMany(documents as object[], { ordered: false });
        return documents.map((job) => ({ job }));
      } catch (error) {
        const failed = failuresIn(error);
        return documents.map((job, i) => (failed.has(i) ? { error: failed.get(i) } : { job }));
      }
    },
  });

  const removals = createGroup<string, void>({
    most,
    async write(ids) {
      await inner.removeJobs({ ids: [...ids] });
      return [];
    },
  });

  const obsolete = createGroup<AttemptRef, void>({
    most,
    linger,
    async write(bells) {
      const numbers = [...new Set(bells.map(({ attempt }) => attempt))];
      const idsOf = (number: number) =>
        bells.filter(({ attempt }) => attempt === number).map((bell) => bell.deliveryId);
      const which = numbers.map((number) => ({ 'data.deliveryId': { $in: idsOf(number) }, 'data.attempt': number }));
      // the index is of jobs that wait: those that run are removed by who runs them
      await collection.deleteMany({ nextRunAt: { $type: 'date' }, $or: which });
      return [];
    },
  });

  async function lock(jobName: string, owner: string, lockDeadline: Date): Promise<void> {
    const lockedAt = new Date();
    const free = {
      name: jobName,
      disabled: { $ne: true },
      $or: [{ lockedAt: null, nextRunAt: { $lte: lockedAt } }, { lockedAt: { $lte: lockDeadline } }],
    };
    const sort = { nextRunAt: 1, priority: -1 } as const;
    const found = await collection
      .find(free, { projection: { _id: 1 }, ...inOneBatch })
      .sort(sort)
      .limit(mostLocked)
      .toArray();
    if (found.length === 0) return;
    const ids = { _id: { $in: found.map(({ _id }) => _id) } };
    const lockedByUs = { lockedAt, lastModifiedBy: owner };
    await collection.updateMany({ ...ids, ...free }, { $set: lockedByUs });
    const ours = await collection.find({ ...ids, ...lockedByUs }, inOneBatch).toArray();
    locked.push(...(ours as unknown as StoredJob[]).map(toParameters));
  }

  return {
    async insert(job) {
      const outcome = await inserts.add(job);
      if ('job' in outcome) return outcome.job;
      throw outcome.error;
    },
    async remove(id) {
      // beside one that is no id, Agenda's backend would remove none
      if (jobId.test(id)) await removals.add(id);
    },
    removeFor: obsolete.add,
    async lockNext(jobName, owner, lockDeadline) {
      // those that Agenda did not ask for in time are anybody's again
      while (locked[0]?.lockedAt && locked[0].lockedAt <= lockDeadline) locked.shift();
      if (locked.length === 0) {
        locking ??= lock(jobName, owner, lockDeadline).finally(() => {
          locking = null;
        });
        await locking;
      }
      return locked.shift();
    },
  };
}
