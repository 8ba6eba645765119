import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { CommandFailure } from '../terminal/command-failure.ts';

/** Tells a process which of them it is. A process that replaces another has the same number. */
const numberVariable = 'EXPRESS_MODEL_GATEWAY_PROCESS';

/** The waits before a process is started again: longer with every time that it ends early. Milliseconds. */
const [firstPause, longestPause] = [1_000, 30_000] as const;
/** A process that has run for so long did not end early. Milliseconds. */
const longEnough = 60_000;

/** The number of this process among those that {@link startProcesses} runs, from 0; `undefined` in all others. */
export function processNumber(env: Readonly<Record<string, string | undefined>>): number | undefined {
  return cluster.isWorker ? Number(env[numberVariable]) : undefined;
}

/** Tells the process that runs the others that this one serves. */
export function notifyReady(): void {
  process.send?.('ready');
}

/**
 * Resolves when this process is to stop: at SIGTERM. Ctrl-C reaches every process of a terminal, and only the one that runs the others acts
 * on it. If that one is killed, Node ends this process at once.
 */
export function untilToldToStop(): Promise<void> {
  return new Promise((resolve) => {
    process.on('SIGINT', () => {});
    process.on('SIGTERM', resolve);
  });
}

/** Lets this process end: its connection to the one that runs it would keep it alive. */
export function leave(): void {
  cluster.worker?.disconnect();
}

/**
 * Runs this program in several processes that share their port, and starts one again that ends. The first one alone begins, so that one
 * builds the indexes and makes the first key.
 */
export function startProcesses(count: number, log: (line: string) => void) {
  const running = new Map<Worker, Promise<unknown>>();
  const timers = new Set<NodeJS.Timeout>();
  let isStopping = false;
  /** Whether the first process has served. */
  let isBegun = false;
  let fail: (error: Error) => void = () => {};
  const failed = new Promise<never>((_, reject) => {
    fail = reject;
  });
  failed.catch(() => {});

  function launch(number: number, pause: number, onReady: () => void): void {
    const child = cluster.fork({ [numberVariable]: String(number) });
    const startedAt = performance.now();
    child.on('message', (message) => {
      if (message !== 'ready') return;
      log(`Process ${number + 1} serves (pid ${child.process.pid})`);
      onReady();
    });
    const ended = once(child, 'exit').then(([code, signal]) => {
      running.delete(child);
      if (isStopping) return;
      const reason = signal ?? `exit code ${code}`;
      if (!isBegun) return fail(new CommandFailure(`No process was started: the first one ended (${reason})`));
      const wait = performance.now() - startedAt > longEnough ? firstPause : pause;
      log(`Process ${number + 1} ended (${reason}); it starts again in ${wait / 1_000} s`);
      const timer = setTimeout(() => {
        timers.delete(timer);
        launch(number, Math.min(2 * wait, longestPause), onReady);
      }, wait);
      timers.add(timer);
    });
    running.set(child, ended);
  }

  launch(0, firstPause, () => {
    // the first one may say so when it has been told to stop
    if (isBegun || isStopping) return;
    isBegun = true;
    for (let number = 1; number < count; number += 1) launch(number, firstPause, () => {});
  });
  // a second signal ends this process at once, and the others with it
  process.on('exit', () => {
    for (const child of running.keys()) child.process.kill('SIGKILL');
  });

  return {
    /** Rejects if the first one ends before it serves: a setting is wrong. */
    failed,
    /** Stops all of them in order. Resolves when all have ended. */
    async stop(): Promise<void> {
      isStopping = true;
      for (const timer of timers) clearTimeout(timer);
      // one that has not begun to listen for it ends at once
      for (const child of running.keys()) child.process.kill('SIGTERM');
      await Promise.all(running.values());
    },
  };
}
