import { randomBytes } from 'node:crypto';
import { expect } from 'chai';
import type { Connection } from 'mongoose';
import { expireEvents } from '../../src/deliveries/expiry.ts';
import { createManualAttempts } from '../../src/deliveries/manual-attempt.ts';
import { createDeliveryModel, type DeliveryDocument } from '../../src/deliveries/model.ts';
import { createFindRecoverable } from '../../src/deliveries/recoveries.ts';
import { createDeliveryService } from '../../src/deliveries/service.ts';
import { createEventModel } from '../../src/events/model.ts';
import { createOutbox } from '../../src/events/outbox.ts';
import { createSendRateModel } from '../../src/fairness/model.ts';
import { createDatabaseClock } from '../../src/mongo/clock.ts';
import { parseNetworks } from '../../src/outbound/addresses.ts';
import { createSealer } from '../../src/webhooks/secrets.ts';
import { claimsOf, claimTerms } from '../deliveries/claims-of.ts';
import {
  deliveryOptions,
  type FakeWebhooks,
  noRateLimits,
  payment,
  startDeliveryServices,
} from '../deliveries/delivery-services.ts';
import { startReceiver } from '../deliveries/receiver.ts';
import { settled } from '../events/harness.ts';
import { silentLogger } from '../support/logger.ts';
import { eventually, until } from '../support/until.ts';
import { webhookService, webhookServiceOf } from '../webhooks/support.ts';
import { expectUnavailable, type Row, type Scene } from './harness.ts';

const { userId } = payment;
const sealer = createSealer([`k1:${randomBytes(32).toString('base64')}`]);
const rules = { allowHttp: true, networks: parseNetworks(['127.0.0.0/8']) };
const putOff = 'an attempt could not be made';
/** Longer than a confirmed read takes that waits for another one. Milliseconds. */
const within = 8_000;

/** Webhooks as one member of the replica set has them. */
const webhooksOf = (connection: Connection) => webhookServiceOf(connection, { sealer, rules }).service;
const deliveriesAt = (connection: Connection) => createDeliveryModel(connection, 'gateway_');
const eventsAt = (connection: Connection) => createEventModel(connection, 'gateway_');

/** Three webhooks that shall have one event: the primary does not have one, has one as inactive and one as not subscribed. */
async function openDeliveries({ connection, stale, defer }: Scene) {
  const receiver = await startReceiver(200);
  defer(receiver.stop);
  const { service: webhooks } = await webhookService(connection, { sealer, rules });
  const gateway = await startDeliveryServices(connection, webhooks as unknown as FakeWebhooks);
  defer(gateway.close);
  const create = (events: string[]) => webhooks.create(userId, { url: receiver.url, events });
  const paused = await create([payment.type]);
  const unsubscribed = await create(['credits.low']);
  await webhooks.update(userId, paused.id, { active: false });
  return {
    connection,
    stale,
    /** Publishes the event through the new primary, and returns how to look at its deliveries. */
    async publish() {
      await create([payment.type]);
      await webhooks.update(userId, paused.id, { active: true });
      await webhooks.update(userId, unsubscribed.id, { events: [payment.type] });
      const { id } = await gateway.publishStored(payment);
      return { id, deliveries: () => gateway.ofEvent(id) };
    },
    expectPending(deliveries: readonly DeliveryDocument[]) {
      const all = deliveries.map(({ state, reason, attempt, attempts }) => ({ state, reason, attempt, attempts }));
      expect(all).to.deep.equal(Array(3).fill({ state: 'pending', reason: undefined, attempt: 1, attempts: [] }));
      expect(receiver.received).to.have.length(0);
    },
    async expectDelivered(deliveries: () => Promise<DeliveryDocument[]>) {
      await gateway.start();
      await until(async () => (await deliveries()).every(({ state }) => state === 'delivered'));
      const made = (await deliveries()).map(({ attempts }) => attempts.map(({ number }) => number));
      expect(made).to.deep.equal([[1], [1], [1]]);
      expect(receiver.received).to.have.length(3);
    },
  };
}

type Published = Awaited<ReturnType<Awaited<ReturnType<typeof openDeliveries>>['publish']>>;

/** Until each delivery was put off by a worker that reads events and webhooks there, or has ended. */
async function judge(
  connection: Connection,
  at: { events: Connection; webhooks: Connection },
  { deliveries }: Published,
) {
  const postponed = new Set<unknown>();
  const note = (message: string, fields?: object) => {
    if (message === putOff) postponed.add((fields as { deliveryId: string }).deliveryId);
  };
  const events = eventsAt(at.events);
  const clock = createDatabaseClock(connection);
  const service = createDeliveryService({
    connection,
    sendRates: createSendRateModel(connection, 'gateway_'),
    deliveries: deliveriesAt(connection),
    events,
    outbox: createOutbox(events, clock),
    clock,
    settleSubscribers: settled,
    forDelivery: webhooksOf(at.webhooks).forDelivery,
    urlOf: async () => null,
    clients: { allowHttp: true, allowAddress: () => true },
    options: { ...deliveryOptions(), logger: { ...silentLogger, warn: note, error: note } },
    userAgent: 'express-model-gateway/test',
  });
  await service.start();
  try {
    const isJudged = ({ _id, state }: DeliveryDocument) => state !== 'pending' || postponed.has(_id);
    await eventually(deliveries, (all) => all.every(isJudged));
  } finally {
    await service.close();
  }
  return deliveries();
}

/** A row about the three deliveries, which `look` leaves as they were; they are made once the replica set has recovered. */
const row = (
  { subject, holds }: Pick<Row, 'subject' | 'holds'>,
  look: (at: Awaited<ReturnType<typeof openDeliveries>>, event: Published) => Promise<void>,
): Row => ({
  fault: 'a replaced primary',
  subject,
  written: 'published through the new primary',
  holds: `${holds}; delivered at the first attempt when the replica set has recovered`,
  async show(stage) {
    // a scene of its own
    const at = await stage.scene((scene) => openDeliveries(scene));
    await stage.fault();
    const event = await at.publish();
    await look(at, event);
    await stage.recovered();
    await at.expectDelivered(event.deliveries);
  },
});

export const rows: readonly Row[] = [
  row(
    {
      subject: 'deliveries whose webhooks seem deleted, inactive or not subscribed',
      holds: 'put off without an attempt',
    },
    async ({ connection, stale, expectPending }, event) => {
      expectPending(await judge(connection, { events: connection, webhooks: stale }, event));
    },
  ),

  row(
    { subject: 'deliveries whose event seems deleted', holds: 'put off without an attempt' },
    async ({ connection, stale, expectPending }, event) => {
      expectPending(await judge(connection, { events: stale, webhooks: connection }, event));
    },
  ),

  row(
    {
      subject: 'a delivery that its worker has claimed',
      holds: 'kept by the worker, and by a resend: recording the outcome is unavailable for the moment',
    },
    async ({ connection, stale }, { deliveries }) => {
      const [delivery] = (await deliveries()) as [DeliveryDocument];
      const result = { durationMs: 1, status: 500, code: 'http_500' as const, response: '' };
      const claims = claimsOf(deliveriesAt(connection), 'wrk_1', 60_000);
      const claim = await eventually(
        () => claims.claim({ deliveryId: delivery._id, attempt: 1 }),
        (found) => found !== null,
      );
      if (!claim) throw new Error('it was not claimed');
      const outdated = claimsOf(deliveriesAt(stale), 'wrk_1', 60_000);
      await expectUnavailable(within, outdated.record(claim, result, { retryIn: 0 }));
      await claims.giveBack(claim, 0);
      claims.drop(claim);

      const manualAt = (where: Connection) =>
        createManualAttempts({
          ...claimTerms(deliveriesAt(where), 'wrk_1', 60_000),
          send: async () => result,
          target: webhooksOf(connection).forDelivery,
          sendRates: noRateLimits,
          body: async () => Buffer.from('{}'),
          userAgent: 'express-model-gateway/test',
          // it is not recorded again and again
          closed: AbortSignal.abort(),
        });
      const manual = manualAt(connection);
      const asked = await manual.claim(userId, delivery._id);
      if (!asked) return expect.fail('not claimed');
      await expectUnavailable(within, manualAt(stale).make(asked));
      await manual.giveBack(asked);
    },
  ),

  row(
    {
      subject: 'an event that is due to expire',
      holds: 'its recovery and the retention are unavailable for the moment, so that it does not expire',
    },
    async ({ connection, stale }, { id, deliveries }) => {
      const find = createFindRecoverable(deliveriesAt(stale), eventsAt(stale));
      const [{ webhookId }] = (await deliveries()) as [DeliveryDocument];
      const since = new Date(Date.now() - 600_000);
      const until = new Date(Date.now() + 600_000);
      const wanted = { userId, webhookId, states: ['failed', 'canceled', 'skipped'] as const, since, until };
      const events = eventsAt(connection);
      await expectUnavailable(
        within,
        find.deliveries(wanted, null, 50),
        find.events(wanted, null, 50),
        expireEvents({ events, deliveries: deliveriesAt(stale), retention: -600_000 }),
      );
      expect(await events.findById(id).lean()).not.to.have.property('expiresAt');
    },
  ),
];
