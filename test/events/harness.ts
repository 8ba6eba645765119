import type { Connection } from 'mongoose';
import { catalogueOf } from '../../src/events/catalogue.ts';
import { createEventModel, createOwnerModel } from '../../src/events/model.ts';
import { createOutbox, type SettleSubscribers } from '../../src/events/outbox.ts';
import { createEventService, type FanOuts } from '../../src/events/service.ts';
import { createDatabaseClock } from '../../src/mongo/clock.ts';
import { buildIndexes } from '../support/database/indexes.ts';
import { silentLogger } from '../support/logger.ts';
import { spec } from '../support/openapi.ts';

export const payment = {
  type: 'payment.completed',
  userId: 'usr_1',
  data: { payment_id: 'pay_1', amount: 20, currency: 'usd', credits_added: 2000, user_id: 'usr_1' },
} as const;

/** Where no primary is ever replaced, no event misses a webhook. */
export const settled: SettleSubscribers = async (event) => event;

/** The fan-out of a process without workers. */
export const noFanOut: FanOuts = { prepare: () => null, wake() {} };

/**
 * The event service alone, as of a process with workers: what it would fan out is written down, and `woken` where it leaves that to sweeps.
 * @param transactionLease milliseconds
 */
export async function startEvents(connection: Connection, transactionLease = 500) {
  const fannedOut: string[] = [];
  const found = { targets: ['wh_1'], skipped: ['wh_2'] };
  const events = createEventModel(connection, 'gateway_');
  const owners = createOwnerModel(connection, 'gateway_');
  const service = createEventService({
    connection,
    outbox: createOutbox(events, createDatabaseClock(connection)),
    owners,
    catalogue: catalogueOf(spec),
    webhooks: {
      subscribers: async () => ({ ...found, target: () => undefined, readAt: 0 }),
      recentSubscribers: () => undefined,
      confirmedSubscribers: async () => found,
      subscribersIn: async () => found,
    },
    settleSubscribers: settled,
    fanOut: {
      prepare: () => ({ lease: 4_500, begin: ({ event }) => void fannedOut.push(event._id) }),
      wake: () => void fannedOut.push('woken'),
    },
    logger: silentLogger,
    transactionLease,
  });
  await buildIndexes(connection, events, owners);
  return { ...service, events, owners, fannedOut, stored: () => events.find().sort({ _id: 1 }).lean() };
}

export type TestEvents = Awaited<ReturnType<typeof startEvents>>;

/** What a process finds: what it remembers, what it reads, and what a majority confirms. */
export const lookUps = {
  recent: { targets: ['wh_recent'], skipped: [] },
  read: { targets: ['wh_read'], skipped: ['wh_paused'], target: () => undefined, readAt: 0 },
  confirmed: { targets: ['wh_confirmed'], skipped: [] },
};

function unwanted(): never {
  throw new Error('nobody should ask for this');
}

/**
 * Publishes an event, whose {@link lookUps} differ; resolves with what is stored, and what its fan-out gets.
 * @param election of the primary that answers the write. @default that of the database
 */
export async function publishBeside(connection: Connection, election?: string) {
  const events = createEventModel(connection, 'gateway_');
  const owners = createOwnerModel(connection, 'gateway_');
  await buildIndexes(connection, events, owners);
  const outbox = createOutbox(events, createDatabaseClock(connection));
  const begun: unknown[] = [];
  const { publish } = createEventService({
    connection,
    outbox: {
      ...outbox,
      async store(...given) {
        const written = await outbox.store(...given);
        return election === undefined ? written : { ...written, writtenIn: election };
      },
    },
    owners,
    catalogue: catalogueOf(spec),
    webhooks: {
      subscribers: async () => lookUps.read,
      recentSubscribers: () => lookUps.recent,
      confirmedSubscribers: async () => lookUps.confirmed,
      subscribersIn: unwanted,
    },
    settleSubscribers: unwanted,
    fanOut: {
      prepare: () => ({
        lease: 4_500,
        begin: ({ event: { targets } }, webhooks) => begun.push({ targets, webhooks }),
      }),
      wake: unwanted,
    },
    logger: silentLogger,
  });
  const { id } = await publish(payment);
  const stored = await events.findById(id).lean();
  return { begun, targets: stored?.targets, skipped: stored?.skipped };
}

/** The code and details of the GatewayError that a call must reject with. */
export async function rejection(call: Promise<unknown>) {
  const error = await call.then(
    () => {
      throw new Error('the call should have failed');
    },
    (reason) => reason,
  );
  if (error?.name !== 'GatewayError') throw error;
  const { code, param, details, message } = error;
  return { code, param, details, message };
}
