import { setTimeout as sleep } from 'node:timers/promises';
import type { Permit, PermitRequest } from './permits.ts';

/** A webhook with a rate limit. */
export interface LimitedWebhook {
  readonly webhookId: string;
  readonly userId: string;
  /** Requests a second. */
  readonly rateLimit: number;
}

/** Keeps the rate limits of webhooks, by all processes together. */
export interface SendRates {
  /** Resolves with 0 when a request may be sent, and otherwise with how many milliseconds later it may ask again. */
  admit(webhook: LimitedWebhook): Promise<number>;
  /** Resolves when a request may be sent, however long that takes. */
  wait(webhook: LimitedWebhook): Promise<void>;
}

export interface SendRatesDeps {
  readonly takePermit: (request: PermitRequest) => Promise<Permit>;
  /** Called when a webhook has been met that has a limit. @param pause milliseconds without a permit */
  readonly onLimited: (webhook: LimitedWebhook, pause: number) => void;
}

export function createSendRates({ takePermit, onLimited }: SendRatesDeps): SendRates {
  return {
    async admit(webhook) {
      const { webhookId, rateLimit } = webhook;
      const { isGranted, wait } = await takePermit({ webhookId, rateLimit, waits: false });
      onLimited(webhook, isGranted ? 0 : wait);
      if (!isGranted) return wait;
      if (wait > 0) await sleep(wait);
      return 0;
    },
    async wait({ webhookId, rateLimit }) {
      const { wait } = await takePermit({ webhookId, rateLimit, waits: true });
      // a process that closes does not stay for it
      if (wait > 0) await sleep(wait, undefined, { ref: false });
    },
  };
}
