import type { Connection } from 'mongoose';
import { type AttemptDeps, Attempts } from '../../../src/deliveries/attempt.ts';
import { Scheduler } from '../../../src/deliveries/scheduler.ts';
import { createEventModel } from '../../../src/events/model.ts';
import { createClaimEvents, createOutbox } from '../../../src/events/outbox.ts';
import { createDatabaseClock } from '../../../src/mongo/clock.ts';
import { durableCollection } from '../../../src/mongo/collection.ts';
import { PendingWork } from '../../../src/pending-work.ts';
import { silentLogger } from '../../support/logger.ts';
import { noJobs } from '../claims-of.ts';
import { noRateLimits, secret } from '../delivery-services.ts';
import { largeEvents } from '../large-events.ts';
import { pendingDelivery } from './pending-delivery.ts';

/** Attempts of deliveries that are all due, each of an event of its own. */
export function startAttempts(
  size: number,
  { record, ...given }: Partial<AttemptDeps & Pick<AttemptDeps['claims'], 'record'>> = {},
) {
  const bodies: WeakRef<Buffer>[] = [];
  const attempts = new Attempts({
    claims: {
      claim: async ({ deliveryId }) => ({
        delivery: pendingDelivery(deliveryId),
        token: deliveryId,
        claimedAt: { time: new Date(), monotonic: performance.now() },
        heldUntil: Number.POSITIVE_INFINITY,
      }),
      maySend: () => true,
      record: record ?? (async () => 'recorded'),
      cancel: async () => {},
      giveBack: async () => {},
      drop() {},
    },
    jobs: noJobs,
    send: async () => ({ durationMs: 1, status: 200, response: '' }),
    target: async () => ({ url: 'https://receiver.example', secret, active: true, events: ['payment.completed'] }),
    async body() {
      const body = Buffer.alloc(size);
      bodies.push(new WeakRef(body));
      return body;
    },
    sendRates: noRateLimits,
    userAgent: 'test',
    pendingWork: new PendingWork(),
    retryDelays: [],
    logger: silentLogger,
    ...given,
  });
  return { attempts, bodies };
}

/** Keys of so many attempts. */
export const keys = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ deliveryId: `dlv_${i}`, attempt: 1 }));

/** A scheduler that finds so many attempts of one webhook due. */
export function startScheduler(attempts: Attempts, count: number): Scheduler {
  const due = keys(count).map((key) => ({ ...key, webhookId: 'wh_1', userId: 'usr_1' }));
  const scheduler = new Scheduler({
    concurrency: count,
    concurrencyPerAccount: count,
    concurrencyPerWebhook: count,
    attempts,
    due: { ofWebhooks: async () => due.splice(0) },
    logger: silentLogger,
  });
  scheduler.start();
  scheduler.look({ webhookId: 'wh_1', userId: 'usr_1' });
  return scheduler;
}

/** Stores events with bodies of this size. @returns their bodies as attempts read them, and as a fan-out takes them */
export async function readStored(connection: Connection, count: number, size: number) {
  const events = createEventModel(connection, 'gateway_');
  const clock = createDatabaseClock(connection);
  const stored = largeEvents(count, size, new Date(Date.now() - 60_000));
  await durableCollection(events).insertMany(stored);
  const read = await Promise.all(stored.map(createOutbox(events, clock).body));
  const taken = await createClaimEvents(events, clock)(stored, 60_000);
  return { read, taken: taken.map(({ event }) => event.body) };
}
