import { setTimeout as sleep } from 'node:timers/promises';
import type { DatabaseBudget } from '../../mongo/connection/availability.ts';
import { asUnavailable } from '../../mongo/unavailable.ts';
import type { Send } from '../send/send.ts';

/** How often it is looked whether a receiver is being waited for. Milliseconds. */
const lookInterval = 100;

export interface AttemptWait {
  /** The same `send`, which is known to be under way. */
  readonly send: Send;
  /**
   * Whether the attempt of a delivery has ended after so many milliseconds; if not, it goes on. The time in which its
   * receiver is waited for is not taken from the budget.
   */
  hasEnded(made: Promise<unknown>, deliveryId: string, wait: number, budget: DatabaseBudget): Promise<boolean>;
}

/** Knows for which attempts of this process a receiver is being waited for: that may take long, the database may not. */
export function createAttemptWait(send: Send): AttemptWait {
  const sending = new Set<string>();

  return {
    async send(outgoing) {
      const { deliveryId = '' } = outgoing;
      sending.add(deliveryId);
      try {
        return await send(outgoing);
      } finally {
        sending.delete(deliveryId);
      }
    },
    async hasEnded(made, deliveryId, wait, budget) {
      const ended = made.then(
        () => true,
        (error: unknown) => {
          throw asUnavailable(error);
        },
      );
      ended.catch(() => {});
      const until = performance.now() + wait;
      const look = () => Promise.race([ended, sleep(lookInterval, false, { ref: false })]);
      while (performance.now() < until) {
        if (await (sending.has(deliveryId) ? look() : budget.run(look))) return true;
      }
      return false;
    },
  };
}
