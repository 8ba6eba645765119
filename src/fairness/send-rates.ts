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

/**
 * Grants the next permits of a webhook, for a pipeline.
 * @param interval between two permits, in milliseconds
 * @param count requests that take permits within the horizon
 * @param waiting requests that take any
 */
function granting(interval: number, count: number, waiting: number) {
  const askedAt = { $toDouble: '$$NOW' };
  const first = { $max: ['$nextAt', askedAt] };
  const untilHorizon = { $subtract: [{ $add: ['$askedAt', permitHorizon] }, '$first'] };
  const near = { $max: [0, { $add: [1, { $floor: { $divide: [untilHorizon, interval] } }] }] };
  return [
    { $set: { first, askedAt, usedAt: '$$NOW' } },
    { $set: { granted: { $add: [{ $min: [count, near] }, waiting] } } },
    { $set: { nextAt: { $add: ['$first', { $multiply: ['$granted', interval] }] } } },
  ];
}

/**
 * Grants permits to send. Those of one webhook are evenly spaced by its limit, whichever process asks: the next permit is the
 * later one of now and the end of the last, by the database's clock (the generic cell rate algorithm without a burst). Requests
 * for one webhook at the same moment share a write. A lost write costs accuracy, never an attempt.
 */
export function createSendRates(rates: SendRateModel): SendRates {
  const collection = durableCollection(rates);
  const options = { upsert: true, returnDocument: 'after', writeConcern: { w: 1 } } as const;

  /** The permits of one webhook's requests, in their order. */
  async function grant(requests: readonly PermitRequest[]): Promise<Map<PermitRequest, Permit>> {
    const inOrder = [...requests].sort((a, b) => Number(a.waits) - Number(b.waits));
    const waiting = requests.filter(({ waits }) => waits).length;
    const count = requests.length - waiting;
    // after a change of the limit, requests of one moment may have read different ones
    const interval = 1_000 / Math.min(...requests.map(({ rateLimit }) => rateLimit));
    const [{ webhookId }] = requests as [PermitRequest];
    const pipeline = granting(interval, count, waiting);
    const write = () => collection.findOneAndUpdate({ _id: webhookId }, pipeline, options);
    // another process may insert it at the same moment
    const rate = await write().catch((error) => (isDuplicateKey(error) ? write() : Promise.reject(error)));
    const { first, granted, askedAt, nextAt } = rate as SendRateDocument;
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
    maxSize: 500,
    concurrency: 2,
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

/** How long a rate limit is remembered after it was met: it may have been changed or removed. Milliseconds. */
const rememberedFor = 5_000;
/** Rate limits above which those that are forgotten are looked for. */
const cleanAbove = 1_000;

interface MetLimit {
  /** Attempts that may wait for their permit at once. */
  readonly ahead: number;
  /** No attempt may be claimed before. */
  readonly pausedUntil: number;
  readonly forgetAt: number;
}

/**
 * The rate limits that this process has met lately, by webhook, so that it claims no more attempts than it can soon send. `now`
 * is a monotonic time in milliseconds, and `waiting` the number of held attempts that are not under way.
 */
export class MetLimits {
  readonly #limits = new Map<string, MetLimit>();

  /** @returns whether a longer pause than before has begun */
  note(webhookId: string, ahead: number, pause: number, now: number): boolean {
    const before = this.#limits.get(webhookId)?.pausedUntil ?? 0;
    const pausedUntil = Math.max(before, pause > 0 ? now + pause : 0);
    this.#limits.set(webhookId, { ahead, pausedUntil, forgetAt: Math.max(now, pausedUntil) + rememberedFor });
    if (this.#limits.size > cleanAbove) {
      for (const [id, { forgetAt }] of this.#limits) if (forgetAt <= now) this.#limits.delete(id);
    }
    return pausedUntil > before && pausedUntil > now;
  }

  has(webhookId: string, now: number): boolean {
    return this.#get(webhookId, now) !== undefined;
  }

  /** How many more attempts may be held. */
  room(webhookId: string, waiting: number, now: number): number {
    const limit = this.#get(webhookId, now);
    if (!limit) return Number.POSITIVE_INFINITY;
    return now < limit.pausedUntil ? 0 : Math.max(0, limit.ahead - waiting);
  }

  /** Whether at least half of the attempts that may wait have gone: claiming a few costs as much as claiming many. */
  isLow(webhookId: string, waiting: number, now: number): boolean {
    const limit = this.#get(webhookId, now);
    return !limit || waiting <= limit.ahead / 2;
  }

  #get(webhookId: string, now: number): MetLimit | undefined {
    const limit = this.#limits.get(webhookId);
    return limit && now < limit.forgetAt ? limit : undefined;
  }
}
