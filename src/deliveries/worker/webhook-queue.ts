import { dynamicThreshold } from '../../fairness/dynamic-threshold.ts';
import type { WebhookRef } from '../attempt/attempt-ref.ts';
import type { AccountShare } from './account-shares.ts';
import { createPrefetchWindow, type PrefetchWindow } from './prefetch-window.ts';

/** An attempt that is claimed, with all that sending it takes. */
export interface ReadyAttempt {
  /** Makes the request; resolves when it has ended, with what is left to do without a place. Never rejects. */
  send(): Promise<() => Promise<void>>;
  /** Leaves the attempt to whoever claims it next. Never rejects. */
  giveBack(): Promise<void>;
}

/** A claimed attempt that waits for a place. */
export interface WaitingAttempt {
  readonly ref: WebhookRef;
  readonly ready: ReadyAttempt;
  readonly done: () => void;
  readonly timer: NodeJS.Timeout;
}

/** The attempts of one webhook that this process holds. */
export interface WebhookQueue {
  readonly window: PrefetchWindow;
  /** In the order in which they were claimed. */
  readonly waiting: Set<WaitingAttempt>;
}

/**
 * A webhook may use two thirds of what the other webhooks of its account leave of the account's places, up to its own limit: so
 * webhooks that hang leave places to those of the same account that do not.
 */
export function createWebhookQueue(share: AccountShare, perWebhook: number): WebhookQueue {
  const window: PrefetchWindow = createPrefetchWindow({
    places() {
      const left = share.places() - (share.window.sending - window.sending);
      return Math.min(perWebhook, dynamicThreshold(left, 2, 3));
    },
  });
  return { window, waiting: new Set() };
}

/** The queues of one account. */
export interface AccountQueues {
  readonly share: AccountShare;
  readonly queues: Map<string, WebhookQueue>;
  /** Those in which something waits, the one served longest ago first. */
  readonly turns: Set<WebhookQueue>;
}

/** The queue whose turn it is among those that may send; it goes to the end of the line. */
export function nextQueue({ share, turns }: AccountQueues): WebhookQueue | undefined {
  if (!share.hasPlace()) return undefined;
  for (const queue of turns) {
    if (!queue.window.hasPlace()) continue;
    turns.delete(queue);
    turns.add(queue);
    return queue;
  }
  return undefined;
}
