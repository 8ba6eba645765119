import { MongoBackend } from '@agendajs/mongo-backend';
import { Agenda } from 'agenda';
import { mongo } from 'mongoose';
import type { Logger } from '../options/options.ts';

/**
 * A job only wakes its process, so its lock need not last. Agenda also keeps a timer of half that time for every job it ran, for which a process
 * that wants to exit waits. Milliseconds.
 */
const lockLifetime = 5_000;
/** Without a limit, Agenda locks all jobs that are due before it runs one, and where that takes longer than a lock lasts, it never ends. */
const lockLimit = 100;

export interface AgendaDeps {
  /** Names this process in the jobs that it locks. */
  readonly owner: string;
  /** The collection of jobs. */
  readonly jobs: mongo.Collection;
  /** How often Agenda looks for jobs that are due before it looks again. Milliseconds. */
  readonly processEvery: number;
  readonly logger: Pick<Logger, 'warn'>;
}

/** An Agenda that can take jobs. It runs them once it is started. */
export async function openAgenda({ owner, jobs, processEvery, logger }: AgendaDeps): Promise<Agenda> {
  // of both drivers, the backend's and that of the host's mongoose
  const db = { collection: () => forBackend(jobs) } as unknown as BackendDb;
  const agenda = new Agenda({
    name: owner,
    backend: new MongoBackend({ mongo: db, collection: jobs.collectionName, ensureIndex: false }),
    processEvery,
    defaultLockLifetime: lockLifetime,
    lockLimit,
    removeOnComplete: true,
  });
  agenda.on('error', (error: unknown) => logger.warn('agenda', { reason: String(error) }));
  await agenda.ready;
  return agenda;
}

type BackendDb = Extract<ConstructorParameters<typeof MongoBackend>[0], { mongo: unknown }>['mongo'];

/**
 * The collection as Agenda's backend gets it. An id becomes one of the driver that sends it: the drivers of mongoose 8 and of the backend refuse each
 * other's. A failed update says so and does not reject: Agenda does not handle the rejection of an unlock, which would end the process.
 * No index is built: the backend would build those of a log that is not kept.
 */
function forBackend(jobs: mongo.Collection): mongo.Collection {
  const failed = () => ({ acknowledged: false });
  return Object.assign(Object.create(jobs), {
    createIndex: async () => '',
    updateOne: (filter: object, update: object) => jobs.updateOne(withOwnIds(filter), update).catch(failed),
    updateMany: (filter: object, update: object) => jobs.updateMany(withOwnIds(filter), update).catch(failed),
    deleteMany: (filter: object) => jobs.deleteMany(withOwnIds(filter)),
  });
}

function withOwnIds(filter: { readonly _id?: unknown }): object {
  const { _id: id } = filter;
  if (id === undefined) return filter;
  const own = (id: unknown) => new mongo.ObjectId(String(id));
  const { $in: ids } = id as { readonly $in?: readonly unknown[] };
  return { ...filter, _id: ids ? { $in: ids.map(own) } : own(id) };
}
