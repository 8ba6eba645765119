import { expect } from 'chai';
import { createModelGateway, type GatewayError, type ModelGateway } from '../../src/index.ts';
import { payment } from '../deliveries/gateway.ts';
import { startReceiver, type TestReceiver } from '../deliveries/receiver.ts';
import { loopbackOptions, newSecretKey } from '../support/gateway.ts';
import { recordingLogger } from '../support/logger.ts';
import { freshDatabase } from '../support/mongo.ts';
import { until } from '../support/until.ts';

describe('what a host is told', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let gateways: ModelGateway[];
  let receiver: TestReceiver;
  const logger = recordingLogger();
  const heard: { name: string; payload: object }[] = [];

  before(async () => {
    database = await freshDatabase();
    receiver = await startReceiver(410);
    const options = {
      ...loopbackOptions,
      mongo: database.connection,
      secretKeys: [newSecretKey()],
      retryDelays: [],
      disableOnGone: true,
      logger,
    };
    gateways = await Promise.all([createModelGateway(options), createModelGateway(options)]);
    await Promise.all(gateways.map((gateway) => gateway.start()));
  });

  after(async () => {
    await Promise.all(gateways.map((gateway) => gateway.close()));
    await receiver.stop();
    await database.drop();
  });

  it('comes once from all processes together, whatever other listeners do', async () => {
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

    await until(() => heard.some(({ name }) => name === 'webhook.disabled'));
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

  it('has names, and functions that listen', () => {
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
