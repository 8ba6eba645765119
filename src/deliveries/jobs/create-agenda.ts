import { Agenda } from 'agenda';
import type { Connection } from 'mongoose';
import type { Logger } from '../../options/options.ts';
import { createJobsBackend } from './backend.ts';
import type { RunDelays } from './channel.ts';
import type { JobsDb } from './due-jobs.ts';

export type { Job } from 'agenda';

/**
 * A job only wakes its process, so its lock need not last. Agenda also keeps a timer of half that time for every job it ran,
 * and a process that wants to exit waits for it. Milliseconds.
 */
const lockLifetime = 5_000;
/** How often Agenda looks for jobs of other processes. Of those that are due before its next look it hears in time. Milliseconds. */
const processEvery = 5_000;

export interface AgendaDeps {
  readonly db: JobsDb;
  /** Names this process in the jobs that it locks. */
  readonly owner: string;
  /** The name of the collection, which holds nothing but these jobs. */
  readonly collection: string;
  /** Jobs locked and run at the same time. */
  readonly limit: number;
  /** How long after their time jobs run, by their name. Milliseconds. @default at their time */
  readonly delays?: RunDelays;
  readonly logger: Pick<Logger, 'warn'>;
}

/** The database that jobs are in. A lost job loses nothing, so no write waits for a majority. */
export function jobsDb(connection: Connection): JobsDb {
  return connection.getClient().db(connection.name, { writeConcern: { w: 1 }, readPreference: 'primary' });
}

/** An Agenda whose jobs wake processes. It is connected once its `ready` has resolved. */
export function createAgenda({ db, owner, collection, limit, delays, logger }: AgendaDeps): Agenda {
  const agenda = new Agenda({
    name: owner,
    backend: createJobsBackend(db, collection, delays),
    processEvery,
    maxConcurrency: limit,
    defaultConcurrency: limit,
    lockLimit: limit,
    defaultLockLimit: limit,
    defaultLockLifetime: lockLifetime,
    removeOnComplete: true,
  });
  agenda.on('error', (error: unknown) => logger.warn('agenda', { reason: String(error) }));
  return agenda;
}
