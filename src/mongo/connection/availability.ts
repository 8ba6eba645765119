import { setImmediate as turn } from 'node:timers/promises';
import type { Connection } from 'mongoose';
import type { Logger } from '../../options/options.ts';
import { asUnavailable, databaseUnavailable, isUnavailableError } from '../unavailable.ts';
import { TimeoutError } from '../with-timeout.ts';
import { DatabaseMonitor } from './database-monitor.ts';

/** How long one request waits for the database. Milliseconds. */
export const longestDatabaseWait = 4_500;

/** Limits how long callers wait for the database. */
export interface DatabaseAccess {
  /** Whether the driver knows no server that takes writes. */
  readonly isUnavailable: boolean;
  /** @throws GatewayError `database_unavailable` if there has been no such server for a second */
  require(): void;
  /**
   * Like `require`, but looks again a turn of the event loop later before it rejects. So the driver can find a new server even while a
   * caller repeats its call in a loop without a pause.
   */
  whenAvailable(): Promise<void>;
  /**
   * Resolves as `work` does. Rejects with a TimeoutError if the database is unavailable for a second, or after `maxWait` ms; the
   * work may have been done, or may still be.
   */
  bound<T>(work: Promise<T>, maxWait?: number): Promise<T>;
  /**
   * Calls `whenAvailable`, then does the work within `bound`, and rejects with `database_unavailable` if the database is the cause.
   * @param waited how much of `maxWait` has passed already; if all of it has, the work does not start
   */
  run<T>(work: () => Promise<T>, maxWait?: number, waited?: number): Promise<T>;
  /** Stops listening. */
  close(): void;
}

/** How long the steps of one request may wait for the database together, if the request also waits for a receiver. */
export interface DatabaseBudget {
  /** Does one step. @throws GatewayError `database_unavailable` if the budget is used up; only for the first step does it say that nothing was done */
  run<T>(work: () => Promise<T>): Promise<T>;
  /** Starts the budget anew, because the database has answered. */
  renew(): void;
}

/** Together with the 1.5 s for authentication, as long as any request may wait. Milliseconds. */
const budgetWait = 3_000;
/** A quicker step does not use the budget. Milliseconds. */
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
        // this step did nothing, but the steps before it did
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

/** The same functions, each wrapped in {@link DatabaseAccess.run}. */
export function withDatabase<T extends Functions>(database: Pick<DatabaseAccess, 'run'>, functions: T): T {
  const bounded = Object.entries(functions).map(([name, call]) => [
    name,
    (...args: never[]) => database.run(() => call(...args)),
  ]);
  return Object.fromEntries(bounded) as T;
}

/** Limits how long the gateway waits for the database of this connection. */
export function createDatabaseAccess(connection: Connection, logger: Pick<Logger, 'warn' | 'info'>): DatabaseAccess {
  const monitor = new DatabaseMonitor(connection.getClient(), logger);

  async function bound<T>(work: Promise<T>, maxWait = longestDatabaseWait): Promise<T> {
    let stop = () => {};
    const expired = new Promise<never>((_, reject) => {
      const giveUp = () => reject(new TimeoutError('the database has not answered in time'));
      const timer = setTimeout(giveUp, maxWait);
      monitor.addDownListener(giveUp);
      stop = () => {
        clearTimeout(timer);
        monitor.removeDownListener(giveUp);
      };
    });
    try {
      return await Promise.race([work, expired]);
    } finally {
      stop();
    }
  }

  function require(): void {
    if (monitor.isDown) throw databaseUnavailable();
  }

  async function whenAvailable(): Promise<void> {
    if (!monitor.isDown) return;
    await turn();
    require();
  }

  return {
    get isUnavailable() {
      return monitor.isLost;
    },
    require,
    whenAvailable,
    bound,
    async run(work, maxWait = longestDatabaseWait, waited = 0) {
      await whenAvailable();
      const remaining = maxWait - waited;
      if (remaining <= 0) throw databaseUnavailable();
      try {
        return await bound(work(), remaining);
      } catch (error) {
        throw asUnavailable(error);
      }
    },
    close: () => monitor.close(),
  };
}
