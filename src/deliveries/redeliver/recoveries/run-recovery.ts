import { createPeriodic } from '../../../mongo/periodic.ts';
import type { Logger } from '../../../options/options.ts';
import type { FindRecoverable } from '../recoverable.ts';
import type { RecoveryDocument } from './model.ts';
import { createPace, type Pace } from './pace.ts';
import type { RecoveryStore } from './recovery-store.ts';
import type { SendBatch, SentBatch } from './send-batch.ts';

/** The most that one recovery sends. */
export const maxRecovered = 100_000;
/** Ids between two writes of the progress. */
const batchSize = 50;

export interface RunRecoveryDeps {
  readonly store: RecoveryStore;
  readonly find: FindRecoverable;
  readonly sendBatch: SendBatch;
  /** Attempts a second, for each recovery. */
  readonly rate: number;
  /** Milliseconds. */
  readonly renewInterval: number;
  readonly logger: Logger;
}

/** Runs a recovery until it has ended or the signal aborts. */
export type RunRecovery = (recovery: RecoveryDocument, signal: AbortSignal) => Promise<void>;

/** The progress of a recovery after its batch was sent. */
function counted(recovery: RecoveryDocument, { results }: SentBatch) {
  const delivered = results.filter((resent) => resent === 'delivered').length;
  const failed = results.filter((resent) => resent === 'failed').length;
  return {
    after: recovery.batch.at(-1) ?? null,
    batch: [],
    seen: recovery.seen + results.length,
    resent: recovery.resent + delivered + failed,
    delivered: recovery.delivered + delivered,
    failed: recovery.failed + failed,
  };
}

/**
 * Makes the function that runs a recovery. A batch is stored before it is sent, and counted afterwards in one write with the
 * progress. A process that takes over goes through the stored batch again, and sends what was not sent.
 */
export function createRunRecovery(deps: RunRecoveryDeps): RunRecovery {
  const { store, find, logger } = deps;

  async function takeBatch(recovery: RecoveryDocument): Promise<Partial<RecoveryDocument> | null> {
    const limit = Math.min(batchSize, maxRecovered - recovery.seen);
    const batch = limit > 0 ? await find[recovery.phase](recovery, recovery.after, limit) : [];
    if (batch.length > 0) return { batch };
    return recovery.phase === 'deliveries' ? { phase: 'events', after: null } : null;
  }

  /** Makes one step; `false` if the recovery goes no further in this process. */
  async function step(recovery: RecoveryDocument, pace: Pace, signal: AbortSignal): Promise<boolean> {
    if (recovery.batch.length === 0) {
      const progress = await takeBatch(recovery);
      if (progress !== null) return advance(recovery, progress);
      await store.finish(recovery);
      return false;
    }
    const sent = await deps.sendBatch(recovery, pace, signal);
    if (!sent.refused && sent.results.length < recovery.batch.length) return true;
    const isHeld = await advance(recovery, counted(recovery, sent));
    if (isHeld && sent.refused) await store.finish(recovery);
    return isHeld && !sent.refused;
  }

  async function advance(recovery: RecoveryDocument, progress: Partial<RecoveryDocument>): Promise<boolean> {
    const isHeld = await store.advance(recovery, progress);
    if (isHeld) Object.assign(recovery, progress);
    return isHeld;
  }

  return async function runRecovery(recovery, signal) {
    const lost = new AbortController();
    const stop = AbortSignal.any([signal, lost.signal]);
    const pace = createPace(deps.rate, stop);
    const renewal = createPeriodic({
      name: 'renewing the lease of a recovery',
      async task() {
        if (!(await store.advance(recovery, {}))) lost.abort();
      },
      interval: deps.renewInterval,
      initialDelay: deps.renewInterval,
      // a renewal without an answer must not delay the next one
      longestRun: deps.renewInterval,
      logger,
    });
    renewal.start();
    try {
      let goesOn = true;
      while (goesOn && !stop.aborted) goesOn = await step(recovery, pace, stop);
      if (stop.aborted) await store.release(recovery);
    } finally {
      await renewal.stop();
    }
  };
}
