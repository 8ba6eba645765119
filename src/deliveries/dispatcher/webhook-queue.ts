import { dynamicThreshold } from '../../fairness/dynamic-threshold.ts';
import type { WebhookRef } from '../attempt/attempt-ref.ts';
import type { ReadyAttempt } from '../attempt/ready-attempt.ts';
import type { AccountShare } from './account-shares.ts';
import { createPrefetchWindow, type PrefetchWindow } from './prefetch-window.ts';

/** A claimed attempt that waits for a place. */
export interface WaitingAttempt {
  readonly ref: WebhookRef;
  readonly ready: ReadyAttempt;
  readonly done: () => void;
  readonly timer: NodeJS.Timeout;
}

/** This process's attempts of one webhook. */
export interface WebhookQueue {
  readonly window: PrefetchWindow;
  /** In the order of their claims. */
  readonly waiting: Set<WaitingAttempt>;
}

/**
 * A webhook may use two thirds of the account's places that its other webhooks leave free, up to its own limit. So webhooks that
 * hang leave places to other webhooks of the same account.
 */
export function createWebhookQueue(share: AccountShare, perWebhook: number): WebhookQueue {
  const window: PrefetchWindow = createPrefetchWindow({
    places() {
      const remaining = share.places() - (share.window.sending - window.sending);
      return Math.min(perWebhook, dynamicThreshold(remaining, 2, 3));
    },
  });
  return { window, waiting: new Set() };
}

/** The queues of one account. */
export interface AccountQueues {
  readonly share: AccountShare;
  readonly queues: Map<string, WebhookQueue>;
  /** Queues with waiting attempts, the one served longest ago first. */
  readonly turns: Set<WebhookQueue>;
}
