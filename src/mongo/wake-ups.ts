import type { Connection } from 'mongoose';
import { GatewayError } from '../errors.ts';
import type { AgendaDeps, JobsDb } from './agenda.ts';
import { databaseOf } from './collection.ts';

/** The index by which Agenda finds jobs that are due; any collection of jobs needs it. */
export const nextJob = {
  key: { name: 1, nextRunAt: 1, priority: -1, lockedAt: 1, disabled: 1 },
  name: 'next',
} as const;

/** The database that jobs are in. A lost job loses nothing, so no write waits for a majority. */
export function jobsDb(connection: Connection): JobsDb {
  return databaseOf(connection, { writeConcern: { w: 1 } });
}

export interface WakeUpsDeps<Data> extends Omit<AgendaDeps, 'db'> {
  /** The name of the jobs. */
  readonly name: string;
  readonly connection: Connection;
  /** The fields that tell a job from others of its name: another one with the same values moves it. */
  readonly key: readonly (keyof Data & string)[];
  /** What the log says if a job was not stored. */
  readonly notStored: string;
}

/**
 * Loads Agenda. It and its backend are ES modules alone, and take longer to load than most: a process that has no jobs does without them.
 * @throws GatewayError `jobs_unavailable` where an ES module cannot be imported, as in Jest
 */
async function loadAgenda() {
  try {
    return await import('./agenda.ts');
  } catch (cause) {
    const remedy = 'in Jest, run it with NODE_OPTIONS=--experimental-vm-modules, or do not call start() in this test';
    const message = `Agenda, by which the gateway keeps its jobs, cannot be imported here; ${remedy}: ${String(cause)}`;
    throw new GatewayError('jobs_unavailable', message, { cause });
  }
}

/** Makes jobs that only wake a process: what they are about decides for itself what is due, and losing all of them loses nothing. */
export function createWakeUps<Data extends object>(deps: WakeUpsDeps<Data>) {
  const { name, connection, key, notStored, logger } = deps;
  let opening: ReturnType<typeof open> | undefined;

  async function open() {
    const { openAgenda } = await loadAgenda();
    return openAgenda({ ...deps, db: jobsDb(connection) });
  }

  /** The one Agenda, opened by whoever needs it first. */
  function agenda() {
    opening ??= open().catch((error: unknown) => {
      opening = undefined;
      throw error;
    });
    return opening;
  }

  return {
    /** Makes sure that there can be jobs. @throws GatewayError `jobs_unavailable`; what the database does */
    async init(): Promise<void> {
      await agenda();
    },
    /** Wakes a process in so many milliseconds, whichever comes first. Logs failures. */
    async schedule(data: Data, wait: number): Promise<void> {
      const due = new Date(Date.now() + wait);
      try {
        const unique = Object.fromEntries(key.map((field) => [`data.${field}`, data[field]]));
        await (await agenda()).create(name, data).unique(unique).schedule(due).save();
      } catch (error) {
        logger.warn(notStored, { ...data, reason: String(error) });
      }
    },
    /** Removes the jobs with these fields in their data. @throws what the database does */
    async remove(data: Partial<Data>): Promise<void> {
      await (await agenda()).cancel({ data });
    },
    /** Runs jobs in this process from now on. @param wake called when a job is due by this process's clock. Must not throw. */
    async start(wake: (data: Data) => void): Promise<void> {
      const running = await agenda();
      running.define<Data>(name, async ({ attrs: { data } }) => wake(data));
      await running.start();
    },
    /** Takes no more jobs, and leaves none locked. */
    async stop(): Promise<void> {
      const opened = await opening?.catch(() => undefined);
      await opened?.stop();
    },
  };
}

export type WakeUps<Data extends object> = ReturnType<typeof createWakeUps<Data>>;
