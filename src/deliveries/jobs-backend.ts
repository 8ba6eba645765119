import { MongoBackend } from '@agendajs/mongo-backend';
import type { AgendaBackend, JobRepository } from 'agenda';

type MongoDb = ConstructorParameters<typeof MongoBackend>[0] extends infer Config
  ? Config extends { mongo: infer Db }
    ? Db
    : never
  : never;

/**
 * Agenda's own MongoDB backend, but for one thing: only jobs that are due are locked. Agenda also locks those due
 * within its polling interval and sets a timer for each; they fill the places of jobs that are due, and one whose
 * timer fires a millisecond early is not looked at again before the next poll.
 */
export function createJobsBackend(mongo: MongoDb, collection: string): AgendaBackend {
  // it would build its index in the background, and a failure there would end the process
  const backend = new MongoBackend({ mongo, collection, ensureIndex: false });
  const repository: JobRepository = Object.create(backend.repository, {
    getNextJobToRun: {
      value: ((name, _nextScanAt, lockDeadline, now, options) =>
        backend.repository.getNextJobToRun(
          name,
          new Date(),
          lockDeadline,
          now,
          options,
        )) satisfies JobRepository['getNextJobToRun'],
    },
  });
  return {
    name: backend.name,
    repository,
    ownsConnection: false,
    // the backend's own connect also makes a collection for logs, `agenda_logs`, which nothing here writes
    connect: () => backend.repository.connect(),
    disconnect: () => backend.disconnect(),
  };
}
