import { MongoBackend } from '@agendajs/mongo-backend';
import type { AgendaBackend, JobParameters, JobRepository } from 'agenda';
import { createJobsStore, type JobsDb, type JobsStore, toParameters, toStoredJob } from './jobs-store.ts';

/** Agenda's storage, and a way to know that Agenda has stopped using it. */
export interface JobsBackend extends AgendaBackend {
  readonly store: JobsStore;
  /** Locks no more jobs; resolves when what was begun with the others is done. */
  quiesce(): Promise<void>;
}

type MongoDb = ConstructorParameters<typeof MongoBackend>[0] extends infer Config
  ? Config extends { mongo: infer Db }
    ? Db
    : never
  : never;

type Changed = 'getNextJobToRun' | 'saveJob' | 'saveJobState' | 'removeJobs' | 'unlockJob';

/** Whether the job is about to be removed, or has just been started: then there is nothing worth saving. */
const isPassing = ({ nextRunAt, failedAt }: JobParameters) => !nextRunAt && !failedAt;

/**
 * Agenda's own MongoDB backend, but for what Agenda does with jobs one by one: they are inserted, locked and removed many
 * at a time, and nothing is saved at their start and end, for the delivery says all of it. Only jobs that are due are
 * locked: Agenda also locks those due within its polling interval and sets a timer for each; they fill the places of
 * jobs that are due, and one whose timer fires a millisecond early is not looked at again before the next poll. It can
 * be waited for: Agenda's `stop` leaves behind what it was just locking or removing. And an unlock that fails ends there:
 * Agenda does not look at what comes of one, so a rejection would end the process; the lock lapses by itself.
 */
export function createJobsBackend(db: JobsDb, collection: string): JobsBackend {
  // it would build its index in the background, and a failure there would end the process
  const backend = new MongoBackend({ mongo: db as MongoDb, collection, ensureIndex: false });
  const inner: JobRepository = backend.repository;
  const store = createJobsStore(db, collection, inner);
  const under = new Set<Promise<unknown>>();
  let quiet = false;

  function watched<T>(work: Promise<T>): Promise<T> {
    const ended: Promise<unknown> = work.catch(() => {}).finally(() => under.delete(ended));
    under.add(ended);
    return work;
  }

  const changed: Pick<JobRepository, Changed> = {
    async getNextJobToRun(name, _nextScanAt, lockDeadline, _now, options) {
      if (quiet) return undefined;
      return watched(store.lockNext(name, options?.lastModifiedBy ?? '', lockDeadline));
    },
    async saveJob<DATA>(job: JobParameters<DATA>, options: { lastModifiedBy?: string } | undefined) {
      const isPlain = !job._id && !job.unique && job.type !== 'single';
      if (!isPlain) return watched(inner.saveJob(job, options));
      const saved = store.insert(toStoredJob(job, options?.lastModifiedBy ?? '')).then(toParameters);
      return watched(saved as Promise<JobParameters<DATA>>);
    },
    saveJobState: (job, options) => (isPassing(job) ? Promise.resolve() : watched(inner.saveJobState(job, options))),
    removeJobs({ id, ...others }) {
      const isSingle = id !== undefined && Object.values(others).every((value) => value === undefined);
      if (!isSingle) return watched(inner.removeJobs({ ...(id !== undefined && { id }), ...others }));
      return watched(store.remove(String(id)).then(() => 1));
    },
    unlockJob: (job) => watched(inner.unlockJob(job).catch(() => {})),
  };

  return {
    name: backend.name,
    store: { ...store, removeFor: (bell) => watched(store.removeFor(bell)) },
    repository: Object.assign(Object.create(inner), changed),
    ownsConnection: false,
    // not the backend's own: it would also set up Agenda's log, in a collection without our prefix
    connect: () => inner.connect(),
    async disconnect() {},
    async quiesce() {
      quiet = true;
      while (under.size > 0) {
        await Promise.all(under);
        // what ended may go on to its next step
        await new Promise((resolve) => setImmediate(resolve));
      }
    },
  };
}
