import { createPeriodic } from '../../../mongo/periodic.ts';
import type { Logger } from '../../../options/options.ts';
import type { RecoveryDocument } from './model.ts';
import type { RecoveryStore } from './recovery-store.ts';
import type { RunRecovery } from './run-recovery.ts';
import { RecoveryTurns } from './turns.ts';

/** Runs recoveries in this process. */
export interface RecoveryRunner {
  start(): void;
  /** A recovery waits. */
  runNow(): void;
  /** Waits for attempts in flight and leaves the rest to other processes. */
  close(): Promise<void>;
}

export interface RecoveryRunnerDeps {
  readonly store: RecoveryStore;
  readonly runRecovery: RunRecovery;
  /** How often waiting recoveries are looked for. Milliseconds. */
  readonly interval: number;
  readonly logger: Logger;
}

export function createRecoveryRunner({ store, runRecovery, interval, logger }: RecoveryRunnerDeps): RecoveryRunner {
  const turns = new RecoveryTurns(store);
  const stop = new AbortController();
  const active = new Set<Promise<void>>();

  function begin(recovery: RecoveryDocument): void {
    const running = turns.begin(recovery.userId);
    const signal = AbortSignal.any([stop.signal, running.leave.signal]);
    const ended: Promise<void> = runRecovery(recovery, signal)
      .catch((error: unknown) => {
        logger.warn('a recovery failed and will be continued', { recoveryId: recovery._id, reason: String(error) });
      })
      .finally(() => {
        active.delete(ended);
        turns.end(running);
        if (!stop.signal.aborted) look.runNow();
      });
    active.add(ended);
  }

  async function takeOver(): Promise<void> {
    while (!stop.signal.aborted) {
      const recovery = await turns.next();
      if (!recovery) return;
      begin(recovery);
    }
  }

  const look = createPeriodic({ name: 'looking for recoveries', task: takeOver, interval, logger });

  return {
    start: look.start,
    runNow: look.runNow,
    async close() {
      stop.abort();
      await look.stop();
      await Promise.all(active);
    },
  };
}
