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
import { SharedReads } from '../../src/mongo/shared-reads.ts';
import { isUnavailable } from '../../src/mongo/unavailable.ts';
import { parseNetworks } from '../../src/outbound/addresses.ts';
import { createSealer } from '../../src/webhooks/secrets.ts';
import { settled } from '../events/harness.ts';
import { type Cluster, startCluster } from '../faults/cluster/cluster.ts';
import { makeStale, type StalePrimary } from '../support/database/stale-primary.ts';
import { silentLogger } from '../support/logger.ts';
import { eventually, until } from '../support/until.ts';
import { webhookService, webhookServiceOf } from '../webhooks/support.ts';
import { claimsOf, claimTerms, noJobs } from './claims-of.ts';
import {
  type DeliveryServices,
  deliveryOptions,
  type FakeWebhooks,
  noRateLimits,
  payment,
  startDeliveryServices,
} from './delivery-services.ts';
import { startReceiver, type TestReceiver } from './receiver.ts';

const { userId } = payment;
const sealer = createSealer([`k1:${randomBytes(32).toString('base64')}`]);
const rules = { allowHttp: true, networks: parseNetworks(['127.0.0.0/8']) };
const rejection = (promise: Promise<unknown>) =>
  promise.then(
    () => expect.fail('it succeeded'),
    (error: unknown) => error,
  );
const putOff = 'an attempt could not be made';

/** Webhooks as one member of the replica set has them. */
const webhooksOf = (connection: Connection) => webhookServiceOf(connection, { sealer, rules }).service;

describe('Deliveries that a worker judges by the data of a replaced primary', function () {
  this.timeout(180_000);
  let cluster: Cluster;
  let stale: StalePrimary;
  let receiver: TestReceiver;
  let gateway: DeliveryServices;
  let eventId: string;

  before(async () => {
    [cluster, receiver] = await Promise.all([startCluster(), startReceiver(200)]);
    const { connection } = cluster;
    const { service: webhooks } = await webhookService(connection, { sealer, rules });
    gateway = await startDeliveryServices(connection, webhooks as unknown as FakeWebhooks);
    const create = (events: string[]) => webhooks.create(userId, { url: receiver.url, events });
    const paused = await create([payment.type]);
    const unsubscribed = await create(['credits.low']);
    await webhooks.update(userId, paused.id, { active: false });
    // the last write of all, which the stale one has too
    const everywhere = { w: 3, wtimeout: 30_000 };
    await connection.getClient().db(connection.name).collection('notes').insertOne({}, { writeConcern: everywhere });

    stale = await makeStale(cluster);
    await create([payment.type]);
    await webhooks.update(userId, paused.id, { active: true });
    await webhooks.update(userId, unsubscribed.id, { events: [payment.type] });
    eventId = (await gateway.publishStored(payment)).id;
  });
  after(async () => {
    await gateway?.close();
    await Promise.all([stale?.end(), receiver?.stop()]);
    await cluster?.stop();
  });

  /** Until each delivery was put off, by a worker that reads these two where they are out of date; or has ended. */
  async function judge(outdated: { events?: Connection; webhooks?: Connection }): Promise<DeliveryDocument[]> {
    const { connection } = cluster;
    const postponed = new Set<unknown>();
    const note = (message: string, fields?: object) => {
      if (message === putOff) postponed.add((fields as { deliveryId: string }).deliveryId);
    };
    const events = createEventModel(outdated.events ?? connection, 'gateway_');
    const clock = createDatabaseClock(connection);
    const service = createDeliveryService({
      connection,
      sendRates: createSendRateModel(connection, 'gateway_'),
      deliveries: createDeliveryModel(connection, 'gateway_'),
      events,
      outbox: createOutbox(events, clock),
      clock,
      settleSubscribers: settled,
      shared: new SharedReads(connection, 0),
      forDelivery: webhooksOf(outdated.webhooks ?? connection).forDelivery,
      urlOf: async () => null,
      clients: { allowHttp: true, allowAddress: () => true },
      options: { ...deliveryOptions(), logger: { ...silentLogger, warn: note, error: note } },
      userAgent: 'express-model-gateway/test',
    });
    await service.start();
    try {
      await eventually(
        () => gateway.ofEvent(eventId),
        (deliveries) => deliveries.every(({ _id, state }) => state !== 'pending' || postponed.has(_id)),
      );
    } finally {
      await service.close();
    }
    return gateway.ofEvent(eventId);
  }

  function expectPending(deliveries: readonly DeliveryDocument[]): void {
    const all = deliveries.map(({ state, reason, attempt, attempts }) => ({ state, reason, attempt, attempts }));
    expect(all).to.deep.equal(Array(3).fill({ state: 'pending', reason: undefined, attempt: 1, attempts: [] }));
    expect(receiver.received).to.have.length(0);
  }

  it('wait, and count no attempt, while their webhooks seem deleted, inactive or not subscribed', async () => {
    expectPending(await judge({ webhooks: stale.connection }));
  });

  it('wait, and count no attempt, while their event seems deleted', async () => {
    expectPending(await judge({ events: stale.connection }));
  });

  it('are not given up by the worker that claimed them: recording the outcome fails as unavailable', async () => {
    const { connection } = cluster;
    const [delivery] = (await gateway.ofEvent(eventId)) as [DeliveryDocument];
    const result = { durationMs: 1, status: 500, code: 'http_500' as const, response: '' };
    const modelAt = (where: Connection) => createDeliveryModel(where, 'gateway_');

    const claims = claimsOf(modelAt(connection), 'wrk_1', 60_000);
    const claim = await eventually(
      () => claims.claim({ deliveryId: delivery._id, attempt: 1 }),
      (found) => found !== null,
    );
    if (!claim) throw new Error('it was not claimed');
    const lost = await rejection(
      claimsOf(modelAt(stale.connection), 'wrk_1', 60_000).record(claim, result, { retryIn: 0 }),
    );
    expect(isUnavailable(lost), String(lost)).to.equal(true);
    await claims.giveBack(claim, 0);
    claims.drop(claim);

    const manualAt = (where: Connection) =>
      createManualAttempts({
        ...claimTerms(modelAt(where), 'wrk_1', 60_000),
        send: async () => ({ durationMs: 1, status: 500, code: 'http_500', response: '' }),
        target: webhooksOf(connection).forDelivery,
        sendRates: noRateLimits,
        body: async () => Buffer.from('{}'),
        jobs: noJobs,
        userAgent: 'express-model-gateway/test',
        // it is not recorded again and again
        closed: AbortSignal.abort(),
      });
    const manual = manualAt(connection);
    const asked = await manual.claim(userId, delivery._id);
    if (!asked) return expect.fail('not claimed');
    const forgotten = await rejection(manualAt(stale.connection).make(asked));
    expect(isUnavailable(forgotten), String(forgotten)).to.equal(true);
    await manual.giveBack(asked);
  });

  it('make a recovery and the retention fail as unavailable, so that their event does not expire', async () => {
    const { connection } = cluster;
    const find = createFindRecoverable(
      createDeliveryModel(stale.connection, 'gateway_'),
      createEventModel(stale.connection, 'gateway_'),
    );
    const [{ webhookId }] = (await gateway.ofEvent(eventId)) as [DeliveryDocument];
    const since = new Date(Date.now() - 600_000);
    const until = new Date(Date.now() + 600_000);
    const wanted = { userId, webhookId, states: ['failed', 'canceled', 'skipped'] as const, since, until };
    const events = createEventModel(connection, 'gateway_');
    const deliveries = createDeliveryModel(stale.connection, 'gateway_');
    const errors = await Promise.all([
      rejection(find.deliveries(wanted, null, 50)),
      rejection(find.events(wanted, null, 50)),
      rejection(expireEvents({ events, deliveries, retention: -600_000 })),
    ]);
    expect(errors.map(isUnavailable), errors.join()).to.deep.equal([true, true, true]);
    expect(await events.findById(eventId).lean()).not.to.have.property('expiresAt');
  });

  it('are delivered when the replica set has recovered', async () => {
    await stale.end();
    await gateway.start();
    const isDelivered = ({ state }: DeliveryDocument) => state === 'delivered';
    await until(async () => (await gateway.ofEvent(eventId)).every(isDelivered));
    const made = (await gateway.ofEvent(eventId)).map(({ attempts }) => attempts.map(({ number }) => number));
    expect(made).to.deep.equal([[1], [1], [1]]);
    expect(receiver.received).to.have.length(3);
  });
});
