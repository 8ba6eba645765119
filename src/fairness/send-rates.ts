import { setTimeout as sleep } from 'node:timers/promises';
import { createBatcher } from '../mongo/batcher.ts';
import { durableCollection } from '../mongo/collection.ts';
import { isDuplicateKey } from '../mongo/writes.ts';
import type { SendRateDocument, SendRateModel } from './model.ts';

/** How far ahead of their moment permits are granted: an attempt waits that long in memory. Milliseconds. */
export const permitHorizon = 500;

/** A request that wants to be sent to a webhook with a rate limit. */
interface PermitRequest {
  readonly webhookId: string;
  /** Requests a second. */
  readonly rateLimit: number;
  /** Whether it takes a permit however late that is. Otherwise it takes none that is later than the horizon. */
  readonly waits: boolean;
}

/** Whether a request may be sent, and in how many milliseconds; if not, in how many milliseconds it may ask again. */
export interface Permit {
  readonly isGranted: boolean;
  readonly wait: number;
}

/** Keeps the rate limits of webhooks, by all processes together. */
export interface SendRates {
  take(request: PermitRequest): Promise<Permit>;
  /** Resolves when a request may be sent, however long that takes. */
  wait(webhook: Omit<PermitRequest, 'waits'>): Promise<void>;
}

/** Requests in one write. */
const maxSize = 500;
const concurrency = 2;

/**
 * Grants permits to send. Those of one webhook are evenly spaced by its limit, whichever process asks: the next permit is the
 * later one of now and the end of the last, by the database's clock (the generic cell rate algorithm without a burst). Requests
 * for one webhook at the same moment share a write. A lost write costs accuracy, never an attempt.
 */
export function createSendRates(rates: SendRateModel): SendRates {
  const collection = durableCollection(rates);

  /** @param count requests that take permits within the horizon @param waiting requests that take any */
  async function reserve(webhookId: string, rateLimit: number, count: number, waiting: number) {
    const interval = 1_000 / rateLimit;
    const askedAt = { $toDouble: '$$NOW' };
    const first = { $max: ['$nextAt', askedAt] };
    const untilHorizon = { $subtract: [{ $add: ['$askedAt', permitHorizon] }, '$first'] };
    const near = { $max: [0, { $add: [1, { $floor: { $divide: [untilHorizon, interval] } }] }] };
    const pipeline = [
      { $set: { first, askedAt, usedAt: '$$NOW' } },
      { $set: { granted: { $add: [{ $min: [count, near] }, waiting] } } },
      { $set: { nextAt: { $add: ['$first', { $multiply: ['$granted', interval] }] } } },
    ];
    const options = { upsert: true, returnDocument: 'after', writeConcern: { w: 1 } } as const;
    const write = () => collection.findOneAndUpdate({ _id: webhookId }, pipeline, options);
    const rate = (await write().catch((error) => {
      // another process has inserted it
      if (!isDuplicateKey(error)) throw error;
      return write();
    })) as SendRateDocument;
    return { ...rate, interval };
  }

  /** The permits of one webhook's requests, in their order. */
  async function grant(requests: readonly PermitRequest[]): Promise<Map<PermitRequest, Permit>> {
    const inOrder = [...requests].sort((a, b) => Number(a.waits) - Number(b.waits));
    const waiting = requests.filter(({ waits }) => waits).length;
    const count = requests.length - waiting;
    // after a change of the limit, requests of one moment may have read different ones
    const rateLimit = Math.min(...requests.map((request) => request.rateLimit));
    const [{ webhookId }] = requests as [PermitRequest];
    const { first, granted, askedAt, nextAt, interval } = await reserve(webhookId, rateLimit, count, waiting);
    const near = granted - waiting;
    const refused = { isGranted: false, wait: Math.max(1, Math.ceil(nextAt - askedAt - permitHorizon / 2)) };
    return new Map(
      inOrder.map((request, i) => {
        if (i >= near && i < count) return [request, refused];
        const place = i < near ? i : i - (count - near);
        return [request, { isGranted: true, wait: Math.ceil(first + place * interval - askedAt) }];
      }),
    );
  }

  const permits = createBatcher<PermitRequest, Permit>({
    maxSize,
    concurrency,
    async write(requests) {
      const byWebhook = new Map<string, PermitRequest[]>();
      for (const request of requests) {
        byWebhook.set(request.webhookId, [...(byWebhook.get(request.webhookId) ?? []), request]);
      }
      const granted = await Promise.all([...byWebhook.values()].map(grant));
      return requests.map((request) => granted.find((permits) => permits.has(request))?.get(request) as Permit);
    },
  });

  return {
    take: permits.add,
    async wait({ webhookId, rateLimit }) {
      const { wait } = await permits.add({ webhookId, rateLimit, waits: true });
      // a process that closes does not stay for it
      if (wait > 0) await sleep(wait, undefined, { ref: false });
    },
  };
}
