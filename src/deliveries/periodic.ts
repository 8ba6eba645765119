import { answered } from '../answered.ts';
import type { Logger } from '../options.ts';

/** The longest that one run is waited for: what it does is safe beside another. Milliseconds. */
const longestRun = 120_000;

/** A task that is done again and again, never twice at once. */
export interface Periodic {
  start(): void;
  /** Does it now rather than when it is next due. */
  hurry(): void;
  /** Starts no more; resolves when a run under way has ended. */
  stop(): Promise<void>;
}

/**
 * Repeats `task`; a failure is logged once until it succeeds again.
 * @param interval milliseconds between the end of one run and the start of the next
 */
export function createPeriodic(name: string, interval: number, task: () => Promise<void>, logger: Logger): Periodic {
  let timer: NodeJS.Timeout | null = null;
  let running: Promise<void> | null = null;
  let hurried = false;
  let stopped = true;
  let failing = false;

  async function attempt(): Promise<void> {
    try {
      await answered(task(), longestRun);
      failing = false;
    } catch (error) {
      if (!failing) logger.warn(`${name} failed and will be tried again`, { reason: String(error) });
      failing = true;
    }
  }

  function run(): void {
    timer = null;
    hurried = false;
    running = attempt().then(() => {
      running = null;
      if (!stopped) timer = setTimeout(run, hurried ? 0 : interval);
    });
  }

  return {
    start() {
      if (!stopped) return;
      stopped = false;
      run();
    },
    hurry() {
      hurried = true;
      if (timer === null) return;
      clearTimeout(timer);
      run();
    },
    async stop() {
      stopped = true;
      if (timer) clearTimeout(timer);
      timer = null;
      await running;
    },
  };
}
