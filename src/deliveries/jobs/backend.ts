import { MongoBackend } from '@agendajs/mongo-backend';
import type { AgendaBackend, JobParameters, JobRepository, RemoveJobsOptions } from 'agenda';
import { createBatcher } from '../../mongo/batcher.ts';
import { isObjectId, objectId } from '../../mongo/object-id.ts';
import { failuresIn, isDuplicateKey } from '../../mongo/writes/duplicate-key.ts';
import { createPendingWork } from '../pending-work.ts';
import { DueChannel, type RunDelays } from './channel.ts';
import { createDueJobs, type DueJobs, type JobsDb } from './due-jobs.ts';
import { JobLocks } from './job-locks.ts';

/** Jobs written or removed at once. */
const maxSize = 500;

type MongoDb = ConstructorParameters<typeof MongoBackend>[0] extends infer Config
  ? Config extends { mongo: infer Db }
    ? Db
    : never
  : never;

type Write = Parameters<ReturnType<JobsDb['collection']>['bulkWrite']>[0][number];
type Grouped = 'getNextJobToRun' | 'saveJob' | 'saveJobState' | 'removeJobs' | 'unlockJob' | 'unlockJobs';

/** Whether the job is about to be removed, or has just started: then nothing is worth saving. */
const isPassing = ({ nextRunAt, failedAt }: JobParameters) => !nextRunAt && !failedAt;

/** The filter of the jobs to remove; `null` if they are not named by id or by data alone. */
function filterOf({ id, data, ...others }: RemoveJobsOptions): object | null {
  if (Object.keys(others).length > 0) return null;
  if (data === undefined) return isObjectId(String(id)) ? { _id: objectId(String(id)) } : null;
  if (id !== undefined) return null;
  return Object.fromEntries(Object.entries(data as object).map(([key, value]) => [`data.${key}`, value]));
}

/** Writes jobs, many in one write. */
function createWrites(jobs: ReturnType<JobsDb['collection']>): (operation: Write) => Promise<void> {
  const writes = createBatcher<Write, unknown>({
    maxSize,
    async write(operations) {
      const failures = await jobs.bulkWrite([...operations], { ordered: false }).then(() => null, failuresIn);
      return operations.map((_, i) => failures?.get(i));
    },
  });

  return async function write(operation) {
    const failure = await writes.add(operation);
    // a duplicate is no failure: the attempt has its job already
    if (failure && !isDuplicateKey(failure)) throw failure;
  };
}

/**
 * Agenda's own MongoDB backend, with these differences. Jobs are saved and removed in bulk writes, and locked many at a
 * time. Nothing is saved when a job starts or ends, because it is removed then: that would take 5.3 operations a job instead
 * of 3.3. Agenda hears of a job when it is due. A failed unlock is ignored: the lock lapses later, and because Agenda does
 * not handle the rejection, it would end the process. Disconnecting leaves no job locked, not even those that Agenda's
 * `stop` has just begun to lock.
 */
export function createJobsBackend(db: JobsDb, collection: string, delays: RunDelays = {}): AgendaBackend {
  // otherwise it builds its index in the background, and a failure there would end the process
  const backend = new MongoBackend({ mongo: db as MongoDb, collection, ensureIndex: false });
  const inner: JobRepository = backend.repository;
  const jobs = db.collection(collection, { ignoreUndefined: true });
  const channel = new DueChannel(delays);
  const due = new Map<string, DueJobs>();
  const pendingWork = createPendingWork();
  const locks = new JobLocks(jobs);
  const write = createWrites(jobs);
  let closed = false;

  function tracked<T>(work: Promise<T>): Promise<T> {
    pendingWork.add(
      work.then(
        () => {},
        () => {},
      ),
    );
    return work;
  }

  function dueOf(name: string): DueJobs {
    const dueJobs = due.get(name) ?? createDueJobs(jobs, name, channel, delays[name]);
    due.set(name, dueJobs);
    return dueJobs;
  }

  const grouped: Pick<JobRepository, Grouped> = {
    async getNextJobToRun(name, nextScanAt, lockDeadline, _now, options) {
      if (closed) return undefined;
      locks.owner = options?.lastModifiedBy ?? '';
      const request = { owner: locks.owner, nextScanAt, lockDeadline };
      const job = await tracked(dueOf(name).next(request));
      if (job) locks.add(String(job._id));
      return job;
    },
    async saveJob(job, options) {
      const { _id, unique, uniqueOpts, ...parameters } = job;
      if (_id || !unique || uniqueOpts) return tracked(inner.saveJob(job, options));
      const replacement = { ...parameters, lastModifiedBy: options?.lastModifiedBy };
      await tracked(write({ replaceOne: { filter: { ...unique, name: job.name }, replacement, upsert: true } }));
      return job;
    },
    async saveJobState(job, options) {
      if (!isPassing(job)) await tracked(inner.saveJobState(job, options));
    },
    async removeJobs(options) {
      const filter = filterOf(options);
      if (!filter) return tracked(inner.removeJobs(options));
      await tracked(write({ deleteMany: { filter } }));
      locks.delete(String(options.id));
      return 1;
    },
    unlockJob: ({ _id }) => locks.unlock([String(_id)]),
    unlockJobs: (ids) => locks.unlock(ids.map(String)),
  };

  return {
    name: backend.name,
    repository: Object.assign(Object.create(inner), grouped),
    notificationChannel: channel,
    ownsConnection: true,
    // the backend's own `connect` would also create Agenda's log, in a collection without the prefix
    connect: () => inner.connect(),
    async disconnect() {
      closed = true;
      // let Agenda's running calls get to their next step
      await new Promise((resolve) => setImmediate(resolve));
      await pendingWork.done();
      const unused = [...due.values()].flatMap(({ ready }) => ready);
      await locks.unlock([...locks.ids, ...unused.map(({ _id }) => String(_id))]);
    },
  };
}
