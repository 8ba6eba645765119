import { setTimeout as sleep } from 'node:timers/promises';
import { GatewayError } from '../../../errors.ts';
import type { Logger } from '../../../options/options.ts';
import type { Redeliver, RedeliveryResult } from '../redeliver.ts';
import type { RecoveryDocument } from './model.ts';
import type { Pace } from './pace.ts';

/** Attempts of one recovery in flight at once: fewer than a webhook's new events get. */
const atOnce = 4;
/** How long something that somebody else is at is left before it is looked at again. Milliseconds. */
const lookAgainIn = 250;
/** How long the database or a secret that could not be read is left before the next try. Milliseconds. */
const tryAgainIn = 1_000;

/** What came of a batch. */
export interface SentBatch {
  readonly results: readonly Exclude<RedeliveryResult, 'in_flight'>[];
  /** Whether the webhook takes nothing any more, so that there is no use in going on. */
  readonly refused: boolean;
}

/** Sends everything of a recovery's batch that has not been sent, until the signal. */
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

    /** Until it is known what came of it. */
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

    await Promise.all(Array.from({ length: atOnce }, work));
    return { results, refused };
  };
}
