import type { Attempts } from '../attempt/attempt.ts';
import { refOf, type WebhookRef } from '../attempt/attempt-ref.ts';
import type { FirstAttemptMaker } from '../fan-out/start-deliveries.ts';
import type { AttemptQueues } from './attempt-queues.ts';

/** Decides which first attempts of new deliveries start in this process. */
export interface FirstAttempts extends FirstAttemptMaker {
  /** How many more first attempts of events are wanted: as many as there is room for, once few wait for it. */
  wanted(): number;
}

export interface FirstAttemptsDeps extends AttemptQueues {
  readonly prepareFirst: Attempts['prepareFirst'];
  /** Whether this process makes attempts. */
  readonly isWorking: () => boolean;
}

export function createFirstAttempts(deps: FirstAttemptsDeps): FirstAttempts {
  const { dispatcher, waiting, backlog, isWorking } = deps;

  /**
   * Whether stored deliveries that are due come before a new one. They are claimed when less than half of the attempts that may be
   * claimed ahead are held, so new deliveries may not hold more than that while anything waits.
   */
  function dueComesFirst(webhook: WebhookRef): boolean {
    if (backlog.isEmpty()) return false;
    if (backlog.isBehind(webhook.webhookId)) return true;
    return (
      dispatcher.wanted(webhook) === 0 || dispatcher.wantedOf(webhook.userId) === 0 || dispatcher.wantedInAll() === 0
    );
  }

  return {
    hasRoom: (webhook) => isWorking() && !dueComesFirst(webhook) && dispatcher.room(webhook) > 0,
    handOver(first) {
      let isTaken = false;
      void dispatcher.offer(refOf(first.claim.delivery), () => {
        isTaken = true;
        return deps.prepareFirst(first);
      });
      return isTaken;
    },
    waiting,
    wanted() {
      const demand = dispatcher.wantedInAll();
      return waiting.size < demand / 2 ? demand - waiting.size : 0;
    },
  };
}
