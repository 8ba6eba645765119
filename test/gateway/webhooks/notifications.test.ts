import { expect } from 'chai';
import express from 'express';
import { createModelGateway, type GatewayError, type ModelGateway } from '../../../src/index.ts';
import { payment } from '../../deliveries/delivery-services.ts';
import { startReceiver, type TestReceiver } from '../../deliveries/receiver.ts';
import { loopbackOptions, newSecretKey } from '../../support/gateway.ts';
import { type Listening, listen } from '../../support/listen.ts';
import { recordingLogger } from '../../support/logger.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';

describe('a notification to a host', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let gateways: ModelGateway[];
  let receiver: TestReceiver;
  let server: Listening;
  const logger = recordingLogger();
  // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape it asks for
  const heard: { name: string; payload: any }[] = [];

  before(async () => {
    database = await freshDatabase();
    receiver = await startReceiver(410);
    const options = {
      ...loopbackOptions,
      mongo: database.connection,
      secretKeys: [newSecretKey()],
      retryDelays: [],
      deliveries: { disableOnGone: true },
      logger,
    };
    gateways = await Promise.all([createModelGateway(options), createModelGateway(options)]);
    await Promise.all(gateways.map((gateway) => gateway.start()));
    server = await listen(express().use((gateways[0] as ModelGateway).router));
  });

  after(async () => {
    await server.close();
    await Promise.all(gateways.map((gateway) => gateway.close()));
    await receiver.stop();
    await database.drop();
  });

  it('comes once from all processes together, even if other listeners fail', async () => {
    const unwanted = () => heard.push({ name: 'removed', payload: {} });
    for (const gateway of gateways) {
      gateway.on('delivery.failed', () => {
        throw new Error('thrown by the host');
      });
      gateway.on('delivery.failed', () => Promise.reject(new Error('rejected by the host')));
      for (const name of ['delivery.failed', 'webhook.disabled'] as const) {
        gateway.on(name, unwanted);
        gateway.off(name, unwanted);
        gateway.on(name, (payload) => heard.push({ name, payload }));
      }
    }
    const [one] = gateways as [ModelGateway];
    const webhook = await one.webhooks.create('usr_1', { url: receiver.url, events: ['payment.completed'] });
    const event = await one.publish(payment);

    await until(() => heard.length >= 2);
    await until(async () => (await one.webhooks.get('usr_1', webhook.id)).active === false);
    expect(heard.map(({ name }) => name).sort()).to.deep.equal(['delivery.failed', 'webhook.disabled']);
    const payloadOf = (wanted: string) => heard.find(({ name }) => name === wanted)?.payload;
    expect(payloadOf('delivery.failed')).to.include({
      eventId: event.id,
      eventType: 'payment.completed',
      webhookId: webhook.id,
      userId: 'usr_1',
      attempts: 1,
      code: 'http_410',
      status: 410,
    });
    expect(payloadOf('webhook.disabled')).to.deep.equal({
      id: webhook.id,
      userId: 'usr_1',
      url: receiver.url,
      events: ['payment.completed'],
      reason: 'gone',
    });
    const failures = logger.lines.filter(({ message }) => /listener of the host's/.test(message));
    expect(failures.map(({ fields }) => fields?.error).sort()).to.deep.equal([
      'Error: rejected by the host',
      'Error: thrown by the host',
    ]);
  });

  describe('about a webhook that fails for minutes', () => {
    const userId = 'usr_2';
    const low = {
      type: 'credits.low',
      userId,
      data: { user_id: userId, credits_remaining: 5, threshold: 10 },
    } as const;
    const names = ['webhook.failing', 'webhook.recovered'] as const;
    const failedAt = new Date(Date.now() - 600_000);
    let other: TestReceiver;
    let key: string;

    before(async () => {
      other = await startReceiver(503);
      for (const gateway of gateways) {
        for (const name of names) gateway.on(name, (payload) => heard.push({ name, payload }));
      }
      const [one] = gateways as [ModelGateway];
      ({ key } = await one.keys.create({ userId, scopes: ['webhooks'] }));
    });
    after(() => other.stop());

    const payloadOf = (wanted: string, webhookId: string) =>
      heard.find(({ name, payload }) => name === wanted && payload.id === webhookId)?.payload;
    const namesOf = (webhookId: string) =>
      heard.filter(({ payload }) => payload.id === webhookId).map(({ name }) => name);

    /** A webhook whose first two attempts failed ten minutes ago. */
    async function failedBefore() {
      const [one] = gateways as [ModelGateway];
      const { id } = await one.webhooks.create(userId, { url: other.url, events: ['credits.low'] });
      await database.connection.collection<{ _id: string }>('gateway_health').insertOne({
        _id: id,
        failures: 2,
        failingSince: failedAt,
        lastFailure: { at: failedAt, deliveryId: 'dlv_1', code: 'timeout' },
        updatedAt: failedAt,
      } as { _id: string });
      return id;
    }

    /** Sends the last failed delivery of the webhook again. */
    async function resend(webhookId: string) {
      const [one] = gateways as [ModelGateway];
      const failed = () => one.deliveries.list(userId, { webhookId, state: 'failed', limit: 1 });
      await until(async () => (await failed()).deliveries.length > 0);
      const [delivery] = (await failed()).deliveries;
      const url = `${server.url}/v1/deliveries/${delivery?.id}/resend`;
      const response = await fetch(url, { method: 'POST', headers: { authorization: `Bearer ${key}` } });
      expect(await response.json()).to.include({ state: 'delivered' });
    }

    it('comes once from all processes together, and once more when a resend succeeds', async () => {
      other.answers(503);
      const id = await failedBefore();
      await Promise.all([...gateways, ...gateways].map((gateway) => gateway.publish(low)));
      await until(() => namesOf(id).length > 0);
      const failing = payloadOf('webhook.failing', id);
      expect(failing).to.include({ id, userId, url: other.url });
      expect(failing.events).to.deep.equal(['credits.low']);
      expect(failing.failingSince).to.deep.equal(failedAt);
      expect(failing.lastFailure).to.include({ status: 503, code: 'http_503' });

      other.answers(200);
      await resend(id);
      await until(() => namesOf(id).includes('webhook.recovered'));
      const recovered = payloadOf('webhook.recovered', id);
      expect(recovered).to.include({ id, userId, url: other.url });
      expect(recovered.failingSince).to.deep.equal(failedAt);
      expect(recovered.lastSuccessAt).to.be.above(failing.lastFailure.at);
      expect(namesOf(id)).to.deep.equal(['webhook.failing', 'webhook.recovered']);
    });

    it('comes once, however the webhook is changed, paused and resumed meanwhile, and not after it is deleted', async () => {
      const [one, two] = gateways as [ModelGateway, ModelGateway];
      other.answers(503);
      const kept = await failedBefore();
      const deleted = await failedBefore();
      await one.publish(low);
      await until(() => namesOf(kept).length > 0 && namesOf(deleted).length > 0);

      await two.webhooks.update(userId, kept, { active: false });
      await two.webhooks.update(userId, kept, { active: true, events: ['credits.low', 'credits.depleted'] });
      await two.publish(low);
      await until(
        async () => (await two.deliveries.list(userId, { webhookId: kept, state: 'failed' })).deliveries.length > 1,
      );
      await two.webhooks.remove(userId, deleted);
      other.answers(200);
      await one.publish(low);
      await until(() => namesOf(kept).includes('webhook.recovered'));
      expect(payloadOf('webhook.recovered', kept).events).to.deep.equal(['credits.low', 'credits.depleted']);

      // what is not reported by then, closing reports
      await Promise.all(gateways.map((gateway) => gateway.close()));
      expect(namesOf(kept)).to.deep.equal(['webhook.failing', 'webhook.recovered']);
      expect(namesOf(deleted)).to.deep.equal(['webhook.failing']);
    });
  });

  it('cannot be listened for under an unknown name, or with a listener that is not a function', () => {
    const on = gateways[0]?.on as unknown as (name: string, listener: unknown) => void;
    for (const [name, listener, param] of [
      ['delivery.fail', () => {}, 'name'],
      ['delivery.failed', 'tell', 'listener'],
    ] as const) {
      let thrown: unknown;
      try {
        on(name, listener);
      } catch (error) {
        thrown = error;
      }
      expect(thrown as GatewayError).to.include({ code: 'invalid_value', param });
    }
  });
});
