import { setImmediate as turn } from 'node:timers/promises';
import type { ClientSession, Connection } from 'mongoose';
import { GatewayError } from '../../errors.ts';
import type { Logger } from '../../options/options.ts';
import { InFlight } from '../../pending-work.ts';
import { createPeriodic, type Periodic, TimeoutError } from '../periodic.ts';
import { asUnavailable, databaseUnavailable, isUnavailableError } from '../unavailable.ts';

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
  close(): void;
}

/** Together with the 1.5 s for authentication, as long as any request may wait. Milliseconds. */
const budgetWait = 3_000;
/** A quicker step does not use the budget. Milliseconds. */
const quick = 50;

/** Limits how long the steps of one request may wait for the database together, if the request also waits for a receiver. */
export function createDatabaseBudget(database: Pick<DatabaseAccess, 'run'>) {
  let waited = 0;
  let hasBegun = false;
  return {
    /** Does one step. @throws GatewayError `database_unavailable` if the budget is used up; only for the first step does it say that nothing was done */
    async run<T>(work: () => Promise<T>): Promise<T> {
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
    /** Starts the budget anew, because the database has answered. */
    renew(): void {
      waited = 0;
    },
  };
}

export type DatabaseBudget = ReturnType<typeof createDatabaseBudget>;

/** These functions of a service, each wrapped in {@link DatabaseAccess.run}. */
export function withDatabase<Service extends object, Name extends keyof Service>(
  database: Pick<DatabaseAccess, 'run'>,
  service: Service,
  ...names: readonly Name[]
): Pick<Service, Name> {
  const functions = service as Record<Name, (...args: never[]) => Promise<unknown>>;
  const wrapped = names.map((name) => [name, (...args: never[]) => database.run(() => functions[name](...args))]);
  return Object.fromEntries(wrapped);
}

export function createDatabaseAccess(connection: Connection, logger: Pick<Logger, 'warn' | 'info'>): DatabaseAccess {
  const monitor = new DatabaseMonitor(connection.getClient(), logger);

  async function bound<T>(work: Promise<T>, maxWait = longestDatabaseWait): Promise<T> {
    let giveUp = () => {};
    const expired = new Promise<never>((_, reject) => {
      giveUp = () => reject(new TimeoutError('the database has not answered in time'));
    });
    const timer = setTimeout(giveUp, maxWait);
    monitor.downListeners.add(giveUp);
    try {
      return await Promise.race([work, expired]);
    } finally {
      clearTimeout(timer);
      monitor.downListeners.delete(giveUp);
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

/** How long the database may be lost before it counts as down: many elections are over by then. Milliseconds. */
const grace = 1_000;
/** How often the driver looks for a server while there is none. Milliseconds. */
const probeInterval = 500;
/** How long one such look may take: longer than any driver looks for a server. Milliseconds. */
const longestProbe = 60_000;

type Client = ReturnType<Connection['getClient']>;

interface TopologyChange {
  readonly newDescription: { readonly servers: ReadonlyMap<string, { readonly isWritable: boolean }> };
}

/** Learns from the driver's monitoring whether a server takes writes. */
class DatabaseMonitor {
  readonly #client: Client;
  readonly #logger: Pick<Logger, 'warn' | 'info'>;
  readonly #probing: Periodic;
  /** Called when the database goes down. */
  readonly downListeners = new InFlight<() => void>();
  /** Whether there has been no server that takes writes for a second. */
  isDown = false;
  #lostAt: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(client: Client, logger: Pick<Logger, 'warn' | 'info'>) {
    this.#client = client;
    this.#logger = logger;
    this.#probing = createPeriodic({
      name: 'looking for the database',
      // makes the driver look at once: otherwise, while no command waits, it looks every `heartbeatFrequencyMS`
      task: () =>
        client
          .db('admin')
          .command({ ping: 1 })
          .catch(() => {}),
      interval: probeInterval,
      longestRun: longestProbe,
      logger,
    });
    client.on('topologyDescriptionChanged', this.#onChange);
  }

  /** Whether the driver knows no server that takes writes. */
  get isLost(): boolean {
    return this.#lostAt !== undefined;
  }

  close(): void {
    clearTimeout(this.#timer);
    this.isDown = false;
    this.#client.off('topologyDescriptionChanged', this.#onChange);
    void this.#probing.stop();
  }

  readonly #onChange = ({ newDescription }: TopologyChange): void => {
    const isWritable = [...newDescription.servers.values()].some((server) => server.isWritable);
    if (isWritable === !this.isLost) return;
    clearTimeout(this.#timer);
    if (!isWritable) {
      this.#lostAt = performance.now();
      this.#timer = setTimeout(() => this.#onDown(), grace).unref();
      return;
    }
    const afterMs = Math.round(performance.now() - Number(this.#lostAt));
    if (this.isDown) this.#logger.info('the database is available again', { afterMs });
    this.#lostAt = undefined;
    this.isDown = false;
    void this.#probing.stop();
  };

  #onDown(): void {
    this.isDown = true;
    this.#logger.warn('the database is unavailable; requests that need it are answered 503');
    for (const listener of this.downListeners) listener();
    this.#probing.start();
  }
}

/**
 * Runs writes as one transaction; without a session if the database has no transactions. Rolls back if it takes longer than
 * `within` ms.
 */
export type RunInTransaction = <T>(
  fn: (session: ClientSession | undefined) => Promise<T>,
  within?: number,
) => Promise<T>;

/**
 * For transactions that a caller waits for: they end when the caller gets the error, so that they do not hinder its next
 * try.
 */
export function whileAwaited(transaction: RunInTransaction): RunInTransaction {
  return (fn, within = longestDatabaseWait) => transaction(fn, within);
}

/** So long the first try of a transaction may take, or {@link margin} times as long as those before have lately taken. Milliseconds. */
const firstTry = 2_500;
const margin = 3;
const longestUsual = 10_000;
/** Milliseconds. */
const allTries = 120_000;

/**
 * For transactions of documents that others wait for, and that do nothing the second time. Where their connection has silently died, the
 * server keeps these documents locked until it is told to undo the transaction: here that is soon, and then it is run again, with more time.
 * One that a caller waits for has a second try in what is left of the 4.5 s.
 */
export function undoneSoon(transaction: RunInTransaction): RunInTransaction {
  let usual = 0;
  return async (fn, within = allTries) => {
    const giveUpAt = performance.now() + within;
    for (let time = Math.max(firstTry, margin * usual); ; time *= 4) {
      const startedAt = performance.now();
      const remaining = giveUpAt - startedAt;
      try {
        const result = await transaction(fn, Math.min(time, remaining));
        usual = Math.min(longestUsual, Math.max(performance.now() - startedAt, 0.9 * usual));
        return result;
      } catch (error) {
        // where it has published something, the cause of `publish_unconfirmed`
        const cause = error instanceof GatewayError ? error.cause : error;
        if (!(cause instanceof TimeoutError) || time >= remaining) throw error;
      }
    }
  };
}
