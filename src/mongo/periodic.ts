import { callUnawaited } from '../errors.ts';
import type { Logger } from '../options/options.ts';

/** A task that runs again and again, never twice at once. */
export interface Periodic {
  /** Does nothing if it has started already. */
  start(): void;
  /** Runs the task now; if it is running, once more after that. */
  runNow(): void;
  /** Starts no more runs; resolves when the present run has ended. It may be started again. */
  stop(): Promise<void>;
  /** When the task last succeeded, by `performance.now()`. */
  readonly succeededAt: number | undefined;
}

/** @param took milliseconds */
export type OnRun = (outcome: 'succeeded' | 'failed', took: number) => void;

/** Durations are milliseconds. */
export interface PeriodicOptions {
  /** For the log: `the sweep`, as in "the sweep failed and will be tried again". */
  readonly name: string;
  /** If a run may take longer than `longestRun`, it must be safe beside another run. */
  readonly task: () => unknown;
  /** From the end of one run to the start of the next; after a failed run, from its start. */
  readonly interval: number | (() => number);
  /** From `start()` to the first run. @default 0 */
  readonly initialDelay?: number;
  /** After this time a run counts as failed. @default 9_000 */
  readonly longestRun?: number;
  /** Called after each run. */
  readonly onRun?: OnRun;
  readonly logger: Pick<Logger, 'warn'>;
}

/**
 * Repeats a task. A failure is logged once until the task succeeds again. Does not keep the process alive.
 */
export function createPeriodic(options: PeriodicOptions): Periodic {
  const { name, task, interval, initialDelay = 0, longestRun, onRun, logger } = options;
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> | undefined;
  let hurried = false;
  let stopped = true;
  let failing = false;
  let succeededAt: number | undefined;

  async function runOnce(): Promise<void> {
    const startedAt = performance.now();
    try {
      await withTimeout((async () => task())(), longestRun, false);
      failing = false;
      succeededAt = performance.now();
    } catch (error) {
      if (!failing) logger.warn(`${name} failed and will be tried again`, { reason: String(error) });
      failing = true;
    }
    running = undefined;
    const took = performance.now() - startedAt;
    // whoever counts the runs must not end them
    const count = () => onRun?.(failing ? 'failed' : 'succeeded', took);
    callUnawaited(count, (reason) => logger.warn(`a run of ${name} could not be counted`, { reason }));
    if (stopped) return;
    const pause = typeof interval === 'number' ? interval : interval();
    const wait = hurried ? 0 : Math.max(0, pause - (failing ? took : 0));
    timer = setTimeout(run, wait).unref();
  }

  function run(): void {
    timer = undefined;
    hurried = false;
    running = runOnce();
  }

  return {
    start() {
      if (!stopped) return;
      stopped = false;
      // a run from before `stop()` is still under way
      if (running) hurried = initialDelay === 0;
      else if (initialDelay === 0) run();
      else timer = setTimeout(run, initialDelay).unref();
    },
    runNow() {
      hurried = true;
      if (timer === undefined) return;
      clearTimeout(timer);
      run();
    },
    get succeededAt() {
      return succeededAt;
    },
    async stop() {
      stopped = true;
      clearTimeout(timer);
      timer = undefined;
      await running;
    },
  };
}

/**
 * Calls once when `performance.now()` has reached `at`, never before. Does not keep the process alive.
 * @returns what cancels it
 */
function callAt(at: number, call: () => void): () => void {
  let timer: NodeJS.Timeout;
  function wait(): void {
    // a timer counts from the start of the event loop's turn it was set in, so it can fire early
    const end = () => (performance.now() < at ? wait() : call());
    timer = setTimeout(end, Math.ceil(at - performance.now())).unref();
  }
  wait();
  return () => clearTimeout(timer);
}

/** Calls at times of `performance.now()`, one for each key. */
export class Alarms {
  /** By key: what cancels it. */
  readonly #cancels = new Map<string, () => void>();

  has(key: string): boolean {
    return this.#cancels.has(key);
  }

  /** Takes the place of what is set for the key. */
  set(key: string, at: number, call: () => void): void {
    this.cancel(key);
    const end = () => {
      this.#cancels.delete(key);
      call();
    };
    this.#cancels.set(key, callAt(at, end));
  }

  cancel(key: string): void {
    this.#cancels.get(key)?.();
    this.#cancels.delete(key);
  }

  clear(): void {
    for (const key of this.#cancels.keys()) this.cancel(key);
  }
}

/** Longer than the driver looks for a server, and short enough to resume within 10 s of the database's return. Milliseconds. */
const defaultTimeout = 9_000;

/** The database did not answer in time. The operation may have been done, or may still be done. Its name is no field: the driver copies fields to an error whose name cannot be set. */
export class TimeoutError extends Error {
  override get name() {
    return 'TimeoutError';
  }
}

/**
 * Resolves or rejects as `answer` does, or rejects when the database does not answer in time. The driver (mongodb 7.8)
 * never settles a command whose connection closes while the command waits to be written: it listens for `drain` and
 * `error`, and a destroyed socket may emit neither. Use it where such a command would block everything behind it, and
 * only for work that may be repeated.
 * @param timeout milliseconds
 * @param keepsAlive whether the wait keeps the process alive
 * @throws TimeoutError
 */
export async function withTimeout<T>(answer: Promise<T>, timeout = defaultTimeout, keepsAlive = true): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new TimeoutError(`the database has not answered within ${timeout / 1_000} s`)),
      timeout,
    );
    if (!keepsAlive) timer.unref();
  });
  try {
    return await Promise.race([answer, expired]);
  } finally {
    clearTimeout(timer);
  }
}
