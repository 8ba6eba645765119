import { MongoBackend } from '@agendajs/mongo-backend';
import type { AgendaBackend, JobRepository } from 'agenda';

type MongoDb = ConstructorParameters<typeof MongoBackend>[0] extends infer Config
  ? Config extends { mongo: infer Db }
    ? Db
    : never
  : never;

/** Agenda's storage, and a way to know that Agenda has stopped using it. */
export interface JobsBackend extends AgendaBackend {
  /** Locks no more jobs; resolves when what Agenda had begun with the others is done. */
  quiesce(): Promise<void>;
}

/**
 * Agenda's own MongoDB backend, but for three things. Only jobs that are due are locked: Agenda also locks those due
 * within its polling interval and sets a timer for each; they fill the places of jobs that are due, and one whose
 * timer fires a millisecond early is not looked at again before the next poll. It can be waited for: Agenda's
 * `stop` leaves behind what it was just locking or saving. And an unlock that fails ends there: Agenda does not look at
 * what comes of one, so a rejection would end the process; the lock lapses by itself.
 */
export function createJobsBackend(mongo: MongoDb, collection: string): JobsBackend {
  // it would build its index in the background, and a failure there would end the process
  const backend = new MongoBackend({ mongo, collection, ensureIndex: false });
  const inner: JobRepository = backend.repository;
  const under = new Set<Promise<unknown>>();
  let quiet = false;

  function watched<T>(work: Promise<T>): Promise<T> {
    const ended: Promise<unknown> = work.catch(() => {}).finally(() => under.delete(ended));
    under.add(ended);
    return work;
  }

  const changed: Pick<JobRepository, 'getNextJobToRun' | 'saveJobState' | 'removeJobs' | 'unlockJob'> = {
    async getNextJobToRun(name, _nextScanAt, lockDeadline, now, options) {
      if (quiet) return undefined;
      return watched(inner.getNextJobToRun(name, new Date(), lockDeadline, now, options));
    },
    saveJobState: (job, options) => watched(inner.saveJobState(job, options)),
    removeJobs: (options) => watched(inner.removeJobs(options)),
    unlockJob: (job) => watched(inner.unlockJob(job).catch(() => {})),
  };

  return {
    name: backend.name,
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
