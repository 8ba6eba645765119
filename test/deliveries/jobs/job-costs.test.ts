import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { freshUri } from '../../support/mongo.ts';
import { eventually } from '../../support/until.ts';
import {
  type DeliveryServices,
  ended,
  type FakeWebhooks,
  fakeWebhooks,
  payment,
  startDeliveryServices,
} from '../delivery-services.ts';
import { startReceiver, type TestReceiver } from '../receiver.ts';

describe('The jobs of deliveries', () => {
  let connection: Connection;
  let webhooks: FakeWebhooks;
  let gateway: DeliveryServices;
  let receiver: TestReceiver;
  /** The writes of their collection, by name, and the statements in them. */
  let commands: Map<string, number>;
  let statements: number;

  beforeEach(async () => {
    connection = await mongoose.createConnection(freshUri(), { monitorCommands: true }).asPromise();
    webhooks = fakeWebhooks();
    receiver = await startReceiver();
    webhooks.add(receiver.url);
    gateway = await startDeliveryServices(connection, webhooks, { retryDelays: [500], sweepInterval: 2_000 });
    await gateway.start();
    commands = new Map();
    statements = 0;
    connection.getClient().on('commandStarted', ({ commandName, command }) => {
      const written = command.documents ?? command.updates ?? command.deletes;
      if (command[commandName] !== 'gateway_jobs' || !written) return;
      commands.set(commandName, (commands.get(commandName) ?? 0) + 1);
      statements += written.length;
    });
  });
  afterEach(async () => {
    await gateway.close();
    await receiver.stop();
    await connection.dropDatabase();
    await connection.close();
  });

  const publish = (count: number) => Promise.all(Array.from({ length: count }, () => gateway.publish(payment)));
  const none = () =>
    eventually(
      () => connection.collection('gateway_jobs').countDocuments(),
      (count) => count === 0,
    );

  it('cost nothing when the first attempt begins at once and succeeds', async function () {
    // an attempt that takes a quarter of a second is stored before its outcome
    this.retries(3);
    const events = await publish(10);
    for (const { id } of events) await gateway.delivery(id, ended);

    expect([...commands]).to.deep.equal([]);
  });

  it('cost three writes for each retry, shared when many attempts fail at the same moment', async function () {
    // a process that the machine keeps waiting shares each write among fewer: the least of three bursts counts
    this.retries(2);
    receiver.answers(...Array.from({ length: 30 }, () => 500), 200);
    const events = await publish(30);
    for (const { id } of events) await gateway.delivery(id, ended);
    await none();

    const writes = [...commands.values()].reduce((sum, count) => sum + count, 0);
    // saved and removed; those that are due together are locked by one statement
    expect(statements).to.be.within(61, 90);
    expect(writes).to.be.below(45);
  });
});
