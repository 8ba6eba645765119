import type { ClientSession, Connection } from 'mongoose';
import { expireEvents } from '../../src/deliveries/expiry.ts';
import { firstDelivery } from '../../src/deliveries/fan-out.ts';
import { jobIndexes } from '../../src/deliveries/jobs.ts';
import { createDeliveryModel, type DeliveryDocument } from '../../src/deliveries/model.ts';
import { createDeliveryService } from '../../src/deliveries/service.ts';
import { catalogueOf } from '../../src/events/catalogue.ts';
import { createEventModel, createOwnerModel } from '../../src/events/model.ts';
import { createOutbox, createSettleSubscribers } from '../../src/events/outbox.ts';
import { createEventService } from '../../src/events/service.ts';
import { createSendRateModel } from '../../src/fairness/model.ts';
import type { SendRates } from '../../src/fairness/send-rates.ts';
import type { EventInput, Logger } from '../../src/index.ts';
import { createDatabaseClock } from '../../src/mongo/clock.ts';
import { durableCollection } from '../../src/mongo/collection.ts';
import type { DeliveryTarget } from '../../src/webhooks/webhook.ts';
import { buildIndexes } from '../support/database/indexes.ts';
import { silentLogger } from '../support/logger.ts';
import { spec } from '../support/openapi.ts';
import { eventually } from '../support/until.ts';

export const secret = 'a secret of the receiver';
export const payment = {
  type: 'payment.completed',
  userId: 'usr_1',
  data: { payment_id: 'pay_1', amount: 20, currency: 'usd', credits_added: 2000, user_id: 'usr_1' },
} as const;

/** Webhooks as the two services ask for them, kept in memory. */
export function fakeWebhooks() {
  const webhooks = new Map<string, { userId: string } & { -readonly [K in keyof DeliveryTarget]: DeliveryTarget[K] }>();
  function subscribersOf({ userId, type }: { userId: string; type: string }) {
    const mine = [...webhooks].filter(([, webhook]) => webhook.userId === userId && webhook.events.includes(type));
    const ids = (active: boolean) => mine.filter(([, webhook]) => webhook.active === active).map(([id]) => id);
    return { targets: ids(true), skipped: ids(false) };
  }
  return {
    webhooks,
    add(url: string, more: Partial<DeliveryTarget> & { userId?: string } = {}): string {
      const id = `wh_${webhooks.size + 1}`;
      webhooks.set(id, { userId: 'usr_1', url, secret, active: true, events: ['payment.completed'], ...more });
      return id;
    },
    async subscribers(event: { userId: string; type: string }) {
      return { ...subscribersOf(event), target: (id: string) => webhooks.get(id), readAt: performance.now() };
    },
    /** As of a process that has looked for none yet. */
    recentSubscribers(_event: { userId: string; type: string }): ReturnType<typeof subscribersOf> | undefined {
      return undefined;
    },
    async confirmedSubscribers(event: { userId: string; type: string }) {
      return subscribersOf(event);
    },
    async subscribersIn(_session: ClientSession, event: { userId: string; type: string }) {
      return subscribersOf(event);
    },
    async forDelivery(id: string) {
      return webhooks.get(id) ?? null;
    },
  };
}

export type FakeWebhooks = ReturnType<typeof fakeWebhooks>;

export interface ServiceChoices {
  readonly collectionPrefix?: string;
  readonly retryDelays?: readonly number[];
  readonly attemptTimeout?: number;
  readonly concurrency?: number;
  readonly concurrencyPerAccount?: number;
  readonly concurrencyPerWebhook?: number;
  readonly sweepInterval?: number;
  /** How long an attempt waits for a place or for room. Milliseconds. @default 1_000 */
  readonly maxWait?: number;
  /** How long this process holds an event or an attempt. Milliseconds. @default 4_500 */
  readonly lease?: number;
  /** After this time, a first attempt that has not ended is stored. Milliseconds. @default 250 */
  readonly storeAfter?: number;
  readonly changeStreams?: boolean;
  readonly retentionDays?: number;
  readonly logger?: Logger;
}

/**
 * As long as a test may take: what begins in memory stays there, however slow the machine is, so that what is stored instead
 * is so for want of room alone. Milliseconds.
 */
export const unhurried = { maxWait: 180_000, lease: 180_000, storeAfter: 180_000 } as const;

/** The options of deliveries, as quick as tests are. */
export function deliveryOptions(choices: ServiceChoices = {}) {
  return {
    collectionPrefix: 'gateway_',
    indexes: 'build' as const,
    retryDelays: [20, 20, 20, 20, 20],
    attemptTimeout: 5_000,
    concurrency: 50,
    // one account and its webhooks: as many places as there are
    concurrencyPerAccount: choices.concurrency ?? 50,
    concurrencyPerWebhook: 10,
    sweepInterval: 425,
    changeStreams: false,
    honorRetryAfter: false,
    retentionDays: 30,
    logger: silentLogger,
    ...choices,
  };
}

/** Events and deliveries of one process, on one connection. */
export async function startDeliveryServices(
  connection: Connection,
  webhooks: FakeWebhooks,
  choices: ServiceChoices = {},
) {
  const options = deliveryOptions(choices);
  const { collectionPrefix: prefix } = options;
  const events = createEventModel(connection, prefix);
  const deliveries = createDeliveryModel(connection, prefix);
  const owners = createOwnerModel(connection, prefix);
  const sendRates = createSendRateModel(connection, prefix);
  await buildIndexes(connection, events, owners, deliveries, sendRates, jobIndexes(prefix));
  const clock = createDatabaseClock(connection);
  const outbox = createOutbox(events, clock);
  const settleSubscribers = createSettleSubscribers(events, webhooks.confirmedSubscribers);
  const deliveryService = createDeliveryService({
    connection,
    sendRates,
    deliveries,
    events,
    outbox,
    clock,
    settleSubscribers,
    forDelivery: webhooks.forDelivery,
    urlOf: async (id) => (await webhooks.forDelivery(id))?.url ?? null,
    clients: { allowAddress: (address) => address === '127.0.0.1' },
    options,
    userAgent: 'express-model-gateway/test',
  });
  const eventService = createEventService({
    connection,
    outbox,
    owners,
    catalogue: catalogueOf(spec),
    webhooks,
    settleSubscribers,
    fanOut: deliveryService.fanOut,
    logger: options.logger,
  });
  await deliveryService.init();

  /** Its deliveries, by id. */
  const ofEvent = (eventId: string) => durableCollection(deliveries).find({ eventId }).sort({ _id: 1 }).toArray();

  /** Publishes an event, and stores its deliveries for whoever claims them. To be called before `start`. */
  async function publishStored(input: EventInput) {
    const published = await eventService.publish(input);
    const event = await durableCollection(events).findOneAndUpdate(
      { _id: published.id },
      { $set: { fanOut: 'done' } },
      { returnDocument: 'after' },
    );
    if (!event) throw new Error('the event was not stored');
    const attempts = options.retryDelays.length + 1;
    const stored = event.targets.map((webhookId) => firstDelivery(event, webhookId, attempts));
    if (stored.length > 0) await durableCollection(deliveries).insertMany(stored);
    return published;
  }

  /** Publishes a test event, and has its attempt begun. */
  async function publishTest(target: { userId: string; type: string; webhookId: string }) {
    const leased = await eventService.publishTest({ ...target, lease: deliveryService.lease });
    deliveryService.makeTestAttempt(leased);
    return { id: leased.event._id };
  }

  return {
    ...eventService,
    publishStored,
    publishTest,
    eventStatuses: deliveryService.eventStatuses,
    fanOut: deliveryService.fanOut,
    history: deliveryService.history,
    redeliver: deliveryService.redeliver,
    deliveries,
    events,
    ofEvent,
    /** How the event stands as a whole. */
    async stateOfEvent(eventId: string) {
      const statuses = await deliveryService.eventStatuses.of([{ _id: eventId, targets: [], fanOut: 'done' }]);
      return statuses.get(eventId)?.state;
    },
    start: deliveryService.start,
    close: deliveryService.close,
    /** The one delivery of an event, once `holds` is true of it. */
    /** The pass that deletes what is older than this. Milliseconds. */
    expire: (retention: number) => expireEvents({ events, deliveries, retention }),
    async delivery(eventId: string, holds: (delivery: DeliveryDocument) => boolean = () => true) {
      const isThere = ([delivery]: DeliveryDocument[]) => delivery !== undefined && holds(delivery);
      const [delivery] = await eventually(() => ofEvent(eventId), isThere);
      return delivery as DeliveryDocument;
    },
  };
}

export type DeliveryServices = Awaited<ReturnType<typeof startDeliveryServices>>;

/** For parts that are tested without a webhook that has a limit. */
export const noRateLimits: SendRates = { take: async () => ({ isGranted: true, wait: 0 }), wait: async () => {} };

export const ended = (delivery: DeliveryDocument) => delivery.state !== 'pending';
