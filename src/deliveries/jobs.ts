import type { Connection } from 'mongoose';
import { GatewayError } from '../errors.ts';
import { fromNow } from '../mongo/clock.ts';
import { databaseOf, withCommandTimeout } from '../mongo/collection.ts';
import { createPeriodic } from '../mongo/periodic.ts';
import { buildIndexesOf, type CollectionIndexes } from '../mongo/schema/indexes.ts';
import type { ResolvedOptions } from '../options/options.ts';
import type { AttemptRef } from './claims.ts';

const name = 'delivery attempt';
/** Attempts that are due within this time share a job. Milliseconds. */
const span = 1_000;
/** A job that is overdue for longer is of no use: sweeps have looked since. Milliseconds. */
const longestOverdue = 60_000;
/** How often Agenda looks for jobs. Milliseconds. */
const processEvery = 2_000;

/** The index by which Agenda finds jobs that are due: collection `<prefix>jobs`. */
export function jobIndexes(prefix: string): CollectionIndexes {
  const key = { name: 1, nextRunAt: 1, priority: -1, lockedAt: 1, disabled: 1 } as const;
  return { collection: `${prefix}jobs`, indexes: [{ key, name: 'next' }], isDisposable: true };
}

/**
 * Agenda and its backend are ES modules alone, and take longer to load than most: a process that has no jobs does without them.
 * @throws GatewayError `jobs_unavailable` where an ES module cannot be imported, as in Jest
 */
async function loadAgenda() {
  try {
    return await import('../mongo/agenda.ts');
  } catch (cause) {
    const remedy = 'in Jest, run it with NODE_OPTIONS=--experimental-vm-modules, or do not call start() in this test';
    const message = `Agenda, by which the gateway keeps its jobs, cannot be imported here; ${remedy}: ${String(cause)}`;
    throw new GatewayError('jobs_unavailable', message, { cause });
  }
}

export interface JobsDeps extends Pick<ResolvedOptions, 'collectionPrefix' | 'logger'> {
  readonly connection: Connection;
  readonly owner: string;
  /** How long before its time a sweep sees an attempt. Milliseconds. */
  readonly lookAhead: number;
  /** Milliseconds. @default 10_000 */
  readonly upkeepInterval?: number;
}

export type Jobs = ReturnType<typeof createJobs>;

/**
 * One Agenda job for all attempts that are due in a second of the future. It only says "look": the deliveries decide what is due, and losing every
 * job loses nothing. Its data names the attempt that it was first stored for.
 */
export function createJobs({ connection, owner, lookAhead, upkeepInterval = 10_000, ...deps }: JobsDeps) {
  const { logger } = deps;
  const needed = jobIndexes(deps.collectionPrefix);
  // a lost job loses nothing, so no write waits for a majority
  const db = databaseOf(connection, { writeConcern: { w: 1 } });
  const jobs = withCommandTimeout(db.collection(needed.collection));
  let opening: ReturnType<typeof open> | undefined;
  /** By its time: whether a job that was to be stored within the last second is. */
  const recent = new Map<number, Promise<boolean>>();

  const open = async () => (await loadAgenda()).openAgenda({ owner, jobs, processEvery, logger });

  /** The one Agenda, opened by whoever needs it first. */
  function agenda() {
    opening ??= open().catch((error: unknown) => {
      opening = undefined;
      throw error;
    });
    return opening;
  }

  async function store(attempt: AttemptRef, at: Date): Promise<boolean> {
    try {
      const job = (await agenda()).create(name, attempt).unique({ nextRunAt: at }, { insertOnly: true });
      await job.schedule(at).save();
      return true;
    } catch (error) {
      logger.warn('a job was not stored; the sweep will start the attempt', { ...attempt, reason: String(error) });
      return false;
    }
  }

  /** Those that nobody has run, and those that have run, and whose removal failed. */
  const removeOverdue = () =>
    jobs.deleteMany({ name, lockedAt: null, $expr: { $lt: ['$nextRunAt', fromNow(-longestOverdue)] } });

  const upkeep = createPeriodic({
    name: 'the upkeep of jobs',
    async task() {
      // dropping the collection drops it; without it, each job reads all others
      await buildIndexesOf(db, needed);
      await removeOverdue();
    },
    interval: upkeepInterval,
    initialDelay: upkeepInterval,
    logger,
  });

  return {
    /** An attempt that is due sooner has no job: sweeps see it before Agenda looks. Milliseconds. */
    shortestWait: Math.max(lookAhead, processEvery),
    /** Makes sure that there can be jobs. @throws GatewayError `jobs_unavailable`; what the database does */
    init: async () => void (await agenda()),
    /** Makes sure that there is a job at this time, by the database's clock, or less than a second before. Logs failures. */
    async schedule(attempt: AttemptRef, dueAt: Date): Promise<void> {
      const at = Math.floor(dueAt.getTime() / span) * span;
      const present = recent.get(at);
      if (present && (await present)) return;
      const stored = store(attempt, new Date(at));
      recent.set(at, stored);
      await stored;
      setTimeout(() => recent.delete(at), span).unref();
    },
    /** Runs jobs in this process from now on. @param look called when a job is due by this process's clock. Must not throw. */
    async start(look: () => void): Promise<void> {
      const running = await agenda();
      running.define(name, async () => look());
      upkeep.start();
      // Agenda would run them one by one
      await removeOverdue().catch(() => {});
      await running.start();
    },
    /** Takes no more jobs. A lock that is not undone lapses. */
    async stop(): Promise<void> {
      await upkeep.stop();
      await (await opening?.catch(() => undefined))?.stop();
    },
  };
}
