import { MongoBackend, ObjectId } from '@agendajs/mongo-backend';
import type { AgendaBackend, JobParameters, JobRepository, RemoveJobsOptions } from 'agenda';
import { createBatcher } from '../../mongo/batcher.ts';
import { failuresIn, isDuplicateKey } from '../../mongo/writes/duplicate-key.ts';
import { createBackground } from '../background.ts';
import { DueChannel, type RunDelays } from './channel.ts';
import { createDueJobs, type DueJobs, type JobsDb } from './due-jobs.ts';

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
  if (data === undefined) return ObjectId.isValid(String(id)) ? { _id: new ObjectId(String(id)) } : null;
  if (id !== undefined) return null;
  return Object.fromEntries(Object.entries(data as object).map(([key, value]) => [`data.${key}`, value]));
}

/**
 * Agenda's own MongoDB backend, with these differences. Jobs are saved and removed in bulk writes, and locked many at a time.
 * Nothing is saved when a job starts or ends, because it is removed then: that would take 5.3 operations a job instead of 3.3. Agenda
 * hears of a job when it is due. A failed unlock is ignored: the lock lapses by itself, and because Agenda does not handle the
 * rejection, it would end the process. Disconnecting leaves no job locked, not even those that Agenda's `stop` has just begun to lock.
 */
export function createJobsBackend(db: JobsDb, collection: string, delays: RunDelays = {}): AgendaBackend {
  // otherwise it builds its index in the background, and a failure there would end the process
  const backend = new MongoBackend({ mongo: db as MongoDb, collection, ensureIndex: false });
  const inner: JobRepository = backend.repository;
  const jobs = db.collection(collection, { ignoreUndefined: true });
  const channel = new DueChannel(delays);
  const due = new Map<string, DueJobs>();
  const background = createBackground();
  const locked = new Set<string>();
  /** The owner of the locks, which Agenda names when it asks for jobs. */
  let owner = '';
  let closed = false;

  function tracked<T>(work: Promise<T>): Promise<T> {
    background.add(
      work.then(
        () => {},
        () => {},
      ),
    );
    return work;
  }

  const writes = createBatcher<Write, unknown>({
    maxSize,
    async write(operations) {
      const failures = await jobs.bulkWrite([...operations], { ordered: false }).then(() => null, failuresIn);
      return operations.map((_, i) => failures?.get(i));
    },
  });

  /** A duplicate is no failure: the attempt has its job already. */
  async function write(operation: Write): Promise<void> {
    const failure = await writes.add(operation);
    if (failure && !isDuplicateKey(failure)) throw failure;
  }

  function dueOf(name: string): DueJobs {
    const found = due.get(name) ?? createDueJobs(jobs, name, channel, delays[name]);
    due.set(name, found);
    return found;
  }

  /** If its lock has lapsed, another process may have the job by now. */
  async function unlockOwn(ids: readonly string[]): Promise<void> {
    const ownJobs = { _id: { $in: ids.map((id) => new ObjectId(id)) }, lastModifiedBy: owner };
    await jobs.updateMany(ownJobs, { $unset: { lockedAt: true } });
  }

  async function unlock(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await unlockOwn(ids).catch(() => {});
    for (const id of ids) locked.delete(id);
  }

  const grouped: Pick<JobRepository, Grouped> = {
    async getNextJobToRun(name, nextScanAt, lockDeadline, _now, options) {
      if (closed) return undefined;
      owner = options?.lastModifiedBy ?? '';
      const wanted = { owner, nextScanAt, lockDeadline };
      const job = await tracked(dueOf(name).next(wanted));
      if (job) locked.add(String(job._id));
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
      locked.delete(String(options.id));
      return 1;
    },
    unlockJob: ({ _id }) => unlock([String(_id)]),
    unlockJobs: (ids) => unlock(ids.map(String)),
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
      await background.done();
      const unused = [...due.values()].flatMap(({ ready }) => ready);
      await unlock([...locked, ...unused.map(({ _id }) => String(_id))]);
    },
  };
}
