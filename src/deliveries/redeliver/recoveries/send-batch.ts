import { setTimeout as sleep } from 'node:timers/promises';
import { GatewayError } from '../../../errors.ts';
import type { Logger } from '../../../options/options.ts';
import type { Redeliver, RedeliveryResult } from '../send-for-recovery.ts';
import type { RecoveryDocument } from './model.ts';
import type { Pace } from './pace.ts';

/** Attempts of one recovery in flight at once: fewer than a webhook's new events may have. */
const concurrency = 4;
/** The wait while another attempt of the same delivery is under way. Milliseconds. */
const lookAgainIn = 250;
/** The wait after the database or a secret could not be read. Milliseconds. */
const tryAgainIn = 1_000;

/** The results of a batch. */
export interface SentBatch {
  readonly results: readonly Exclude<RedeliveryResult, 'in_flight'>[];
  /** Whether the webhook is gone or inactive, so that the recovery ends. */
  readonly refused: boolean;
}

/** Sends the ids of a recovery's batch that have not been sent, until the signal aborts. */
export type SendBatch = (recovery: RecoveryDocument, pace: Pace, signal: AbortSignal) => Promise<SentBatch>;

function isRefusal(error: unknown): boolean {
  return error instanceof GatewayError && (error.code === 'webhook_deleted' || error.code === 'webhook_inactive');
}

export function createSendBatch(redeliver: Redeliver, logger: Logger): SendBatch {
  function sendOnce({ _id: recoveryId, webhookId, phase }: RecoveryDocument, id: string): Promise<RedeliveryResult> {
    const recovery = { recoveryId, webhookId };
    return phase === 'deliveries' ? redeliver.delivery(recovery, id) : redeliver.missed(recovery, id);
  }

  return async function sendBatch(recovery, pace, signal) {
    const waiting = [...recovery.batch];
    const results: SentBatch['results'][number][] = [];
    let refused = false;

    const goesOn = () => !refused && !signal.aborted;

    /** Repeats until the result is known. */
    async function send(id: string): Promise<void> {
      while (goesOn()) {
        try {
          const resent = await sendOnce(recovery, id);
          if (resent !== 'in_flight') {
            results.push(resent);
            return;
          }
          await sleep(lookAgainIn);
        } catch (error) {
          refused ||= isRefusal(error);
          if (refused) return;
          logger.warn('a recovery tries again', { recoveryId: recovery._id, id, reason: String(error) });
          await sleep(tryAgainIn);
        }
      }
    }

    async function work(): Promise<void> {
      for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
        if (!(await pace()) || !goesOn()) return;
        await send(id);
      }
    }

    await Promise.all(Array.from({ length: concurrency }, work));
    return { results, refused };
  };
}
