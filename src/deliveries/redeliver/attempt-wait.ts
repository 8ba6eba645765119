import { setTimeout as sleep } from 'node:timers/promises';
import type { DatabaseBudget } from '../../mongo/connection/availability.ts';
import { asUnavailable } from '../../mongo/unavailable.ts';
import type { Send } from '../send/send.ts';

/** How often the wait checks whether the attempt still waits for its receiver. Milliseconds. */
const lookInterval = 100;

export interface AttemptWait {
  /** The same `send`, which also records what is under way. */
  readonly send: Send;
  /**
   * Waits for an attempt, `wait` milliseconds at most, and resolves with whether it has ended; if not, it continues. Waiting
   * for the receiver does not use the budget.
   */
  hasEnded(attempt: Promise<unknown>, deliveryId: string, wait: number, budget: DatabaseBudget): Promise<boolean>;
}

/** Knows which attempts of this process wait for their receiver: that may take long, but the database may not. */
export function createAttemptWait(send: Send): AttemptWait {
  const sending = new Set<string>();

  return {
    async send(request) {
      const { deliveryId = '' } = request.attempt ?? {};
      sending.add(deliveryId);
      try {
        return await send(request);
      } finally {
        sending.delete(deliveryId);
      }
    },
    async hasEnded(attempt, deliveryId, wait, budget) {
      const ended = attempt.then(
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
