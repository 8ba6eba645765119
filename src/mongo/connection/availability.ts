import type { Connection } from 'mongoose';
import type { Logger } from '../../options/options.ts';
import { createPeriodic } from '../periodic.ts';
import { asUnavailable, databaseUnavailable, isUnavailableError } from '../unavailable.ts';
import { TimeoutError } from '../with-timeout.ts';
import { createForgottenCommands } from './forgotten-commands.ts';

/** How long the database is waited for once it is known to be unavailable: many elections are over by then. Milliseconds. */
const grace = 1_000;
/** How long it may take to answer one request. Milliseconds. */
export const longestWait = 4_500;
/** How soon the driver is asked again for a server while there is none. Milliseconds. */
const probeInterval = 500;
/** The longest that its answer is waited for: more than any driver looks for a server. Milliseconds. */
const longestProbe = 60_000;

/** Bounds every wait for the database by what a caller can bear. */
export interface DatabaseAccess {
  /** Whether the driver knows of no server that takes writes. */
  readonly isUnavailable: boolean;
  /** @throws GatewayError `database_unavailable` when there has been none for a second: nothing need be tried */
  require(): void;
  /**
   * What `work` resolves to. Rejects with a TimeoutError when the database becomes unavailable for a second, or
   * `maxWait` ms have passed: what was asked for may have been done, and may still be.
   */
  bound<T>(work: Promise<T>, maxWait?: number): Promise<T>;
  /**
   * Requires the database, does the work, bounded, and says `database_unavailable` where that is why it failed.
   * @param waited how much of `maxWait` has passed already; when that is all of it, the work is not begun
   */
  run<T>(work: () => Promise<T>, maxWait?: number, waited?: number): Promise<T>;
  /** Listens no more. */
  close(): void;
}

/** What the steps of one request may wait for the database together, where the request waits for somebody else too. */
export interface DatabaseBudget {
  /** Does one step. @throws GatewayError `database_unavailable` when nothing is left; it says that nothing was done only of the first */
  run<T>(work: () => Promise<T>): Promise<T>;
  /** The database answers again and again: what was waited for it so far counts no more. */
  renew(): void;
}

/** With the 1.5 s that recognising the caller may take, as much as any request may wait. Milliseconds. */
const budgetWait = 3_000;
/** A step that is quicker costs nothing: the database answers. Milliseconds. */
const quick = 50;

export function createDatabaseBudget(database: Pick<DatabaseAccess, 'run'>): DatabaseBudget {
  let waited = 0;
  let hasBegun = false;
  return {
    async run(work) {
      const startedAt = performance.now();
      const isFirst = !hasBegun;
      const begin = () => {
        hasBegun = true;
        return work();
      };
      try {
        return await database.run(begin, budgetWait, waited);
      } catch (error) {
        // of this step nothing was done, and yet of those before it
        throw !isFirst && isUnavailableError(error) ? databaseUnavailable(error) : error;
      } finally {
        const took = performance.now() - startedAt;
        if (took > quick) waited += took;
      }
    },
    renew() {
      waited = 0;
    },
  };
}

type Functions = Record<string, (...args: never[]) => Promise<unknown>>;

/** The same functions, each of them run with the database: see {@link DatabaseAccess.run}. */
export function withDatabase<T extends Functions>(database: Pick<DatabaseAccess, 'run'>, functions: T): T {
  const bounded = Object.entries(functions).map(([name, call]) => [
    name,
    (...args: never[]) => database.run(() => call(...args)),
  ]);
  return Object.fromEntries(bounded) as T;
}

interface TopologyChange {
  readonly newDescription: { readonly servers: ReadonlyMap<string, { readonly isWritable: boolean }> };
}

/** Knows from the driver's own monitoring of its servers whether one of them takes writes. */
export function createDatabaseAccess(connection: Connection, logger: Pick<Logger, 'warn' | 'info'>): DatabaseAccess {
  const client = connection.getClient();
  const giveUps = new Set<() => void>();
  let lostAt: number | undefined;
  let isLong = false;
  let timer: NodeJS.Timeout | undefined;

  /** The driver looks for a server at once as long as somebody waits for one, and every `heartbeatFrequencyMS` otherwise. */
  const probing = createPeriodic({
    name: 'looking for the database',
    task: () =>
      client
        .db('admin')
        .command({ ping: 1 })
        .catch(() => {}),
    interval: probeInterval,
    longestRun: longestProbe,
    logger,
  });

  function giveUp(): void {
    isLong = true;
    logger.warn('the database is unavailable; requests that need it are answered 503');
    for (const reject of giveUps) reject();
    probing.start();
  }

  function onChange({ newDescription }: TopologyChange): void {
    const isWritable = [...newDescription.servers.values()].some((server) => server.isWritable);
    if (isWritable === (lostAt === undefined)) return;
    clearTimeout(timer);
    if (isWritable) {
      if (isLong)
        logger.info('the database is available again', { afterMs: Math.round(performance.now() - Number(lostAt)) });
      lostAt = undefined;
      isLong = false;
      void probing.stop();
    } else {
      lostAt = performance.now();
      timer = setTimeout(giveUp, grace).unref();
    }
  }

  client.on('topologyDescriptionChanged', onChange);
  const forgotten = createForgottenCommands(client, logger);
  forgotten.start();

  async function bound<T>(work: Promise<T>, maxWait = longestWait): Promise<T> {
    let stop = () => {};
    const silence = new Promise<never>((_, reject) => {
      const giveUpThis = () => reject(new TimeoutError('the database has not answered in time'));
      const patience = setTimeout(giveUpThis, maxWait);
      giveUps.add(giveUpThis);
      stop = () => {
        clearTimeout(patience);
        giveUps.delete(giveUpThis);
      };
    });
    try {
      return await Promise.race([work, silence]);
    } finally {
      stop();
    }
  }

  function require(): void {
    if (isLong) throw databaseUnavailable();
  }

  return {
    get isUnavailable() {
      return lostAt !== undefined;
    },
    require,
    bound,
    async run(work, maxWait = longestWait, waited = 0) {
      require();
      const left = maxWait - waited;
      if (left <= 0) throw databaseUnavailable();
      try {
        return await bound(work(), left);
      } catch (error) {
        throw asUnavailable(error);
      }
    },
    close() {
      clearTimeout(timer);
      isLong = false;
      client.off('topologyDescriptionChanged', onChange);
      void probing.stop();
      void forgotten.stop();
    },
  };
}
