import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import {
  ended,
  type FakeWebhooks,
  fakeWebhooks,
  payment,
  startGateway,
  type TestGateway,
} from '../deliveries/gateway.ts';
import { startReceiver, type TestReceiver } from '../deliveries/receiver.ts';
import { freshUri } from '../support/mongo.ts';
import { rejection } from './harness.ts';

describe('An event and its first deliveries', () => {
  const appName = `together-${process.pid}`;
  let connection: Connection;
  let webhooks: FakeWebhooks;
  let gateway: TestGateway;
  let receiver: TestReceiver;
  let commands: string[];

  beforeEach(async () => {
    connection = await mongoose.createConnection(freshUri(), { appName, monitorCommands: true }).asPromise();
    webhooks = fakeWebhooks();
    gateway = await startGateway(connection, webhooks);
    receiver = await startReceiver();
    commands = [];
    connection.getClient().on('commandStarted', ({ commandName, command }) => {
      const collection = typeof command[commandName] === 'string' ? ` ${command[commandName]}` : '';
      if (/^(insert|update|commit|abort)/.test(commandName)) commands.push(`${commandName}${collection}`);
    });
  });
  afterEach(async () => {
    await failing('off', []);
    await gateway.close();
    await receiver.stop();
    await connection.dropDatabase();
    await connection.close();
  });

  function failing(mode: 'off' | { times: number }, failCommands: string[], data: object = {}) {
    return connection
      .getClient()
      .db('admin')
      .command({ configureFailPoint: 'failCommand', mode, data: { appName, failCommands, ...data } });
  }
  const stored = async () => {
    const events = await gateway.events.find().lean();
    const deliveries = await gateway.deliveries.find().lean();
    return { events: events.map(({ _id }) => _id), deliveries: deliveries.map(({ eventId }) => eventId) };
  };

  it('are stored by one transaction, after which nothing is left to be marked', async () => {
    webhooks.add(receiver.url);
    const { id } = await gateway.publish(payment);
    const [event] = await gateway.events.find().lean();

    expect(event?.fanOut).to.equal('done');
    expect(await stored()).to.deep.equal({ events: [id], deliveries: [id] });
    const ofOurs = commands.filter((command) => !/owners|jobs/.test(command));
    expect(ofOurs).to.deep.equal(['insert gateway_events', 'insert gateway_deliveries', 'commitTransaction']);
  });

  it('go to the webhooks of the moment, whoever heard of the event before', async () => {
    const first = webhooks.add(receiver.url);
    await gateway.publish(payment);
    const second = webhooks.add(receiver.url);
    const both = await gateway.publish(payment);
    webhooks.webhooks.delete(first);
    const one = await gateway.publish(payment);
    webhooks.webhooks.delete(second);
    const none = await gateway.publish(payment);
    const targetsOf = async (id: string) => (await gateway.ofEvent(id)).map(({ webhookId }) => webhookId).sort();

    expect(await targetsOf(both.id)).to.deep.equal([first, second]);
    expect(await targetsOf(one.id)).to.deep.equal([second]);
    expect(await targetsOf(none.id)).to.deep.equal([]);
    expect((await stored()).events).to.have.length(4);
  });

  it('are stored though another of the same moment has an idempotency key that was used', async () => {
    webhooks.add(receiver.url);
    await gateway.start();
    const before = await gateway.publish(payment, { idempotencyKey: 'once' });
    const other = { ...payment, data: { ...payment.data, amount: 21 } };
    const [again, conflict, ...others] = await Promise.all([
      gateway.publish(payment, { idempotencyKey: 'once' }),
      rejection(gateway.publish(other, { idempotencyKey: 'once' })),
      ...Array.from({ length: 10 }, () => gateway.publish(payment)),
    ]);
    for (const { id } of [before, ...others]) await gateway.delivery(id, ended);

    expect(again.id).to.equal(before.id);
    expect(conflict.code).to.equal('idempotency_conflict');
    const ids = [before.id, ...others.map(({ id }) => id)].sort();
    const found = await stored();
    expect(found.events.sort()).to.deep.equal(ids);
    expect(found.deliveries.sort()).to.deep.equal(ids);
    expect(receiver.received).to.have.length(11);
  });

  it('are tried to be stored together once, and then each on its own', async () => {
    webhooks.add(receiver.url);
    await gateway.publish(payment, { idempotencyKey: 'once' });
    commands = [];
    await gateway.publish(payment, { idempotencyKey: 'once' });

    expect(commands.filter((command) => command.startsWith('abort'))).to.have.length(1);
  });

  for (const times of [1, 2, 3, 4]) {
    it(`are there once and sent once when ${times} answers to the commit are lost`, async () => {
      webhooks.add(receiver.url);
      await gateway.start();
      await failing({ times }, ['commitTransaction'], { closeConnection: true });
      const { id } = await gateway.publish(payment);
      await failing('off', []);
      await gateway.delivery(id, ended);

      expect(await stored()).to.deep.equal({ events: [id], deliveries: [id] });
      expect(receiver.received).to.have.length(1);
    });
  }

  it('are not there when the database refuses all of it', async () => {
    webhooks.add(receiver.url);
    await gateway.start();
    await failing({ times: 2 }, ['insert'], { errorCode: 13 });
    const error = await gateway.publish(payment).catch((reason) => reason);

    expect(error.code).to.equal(13);
    expect(await stored()).to.deep.equal({ events: [], deliveries: [] });
    expect(receiver.received).to.have.length(0);
  });

  it('are stored one after the other where the transaction meets a conflict', async () => {
    webhooks.add(receiver.url);
    await gateway.start();
    await failing({ times: 1 }, ['insert'], { errorCode: 112, errorLabels: ['TransientTransactionError'] });
    const { id } = await gateway.publish(payment);
    const delivery = await gateway.delivery(id, ended);

    expect(delivery.state).to.equal('delivered');
    expect(await stored()).to.deep.equal({ events: [id], deliveries: [id] });
  });
});
