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
  /** The writes of their collection, by name. */
  let commands: Map<string, number>;

  beforeEach(async () => {
    connection = await mongoose.createConnection(freshUri(), { monitorCommands: true }).asPromise();
    webhooks = fakeWebhooks();
    receiver = await startReceiver();
    webhooks.add(receiver.url);
    gateway = await startDeliveryServices(connection, webhooks, { retryDelays: [2_500] });
    await gateway.start();
    commands = new Map();
    connection.getClient().on('commandStarted', ({ commandName, command }) => {
      if (command[commandName] !== 'gateway_jobs' || !/findAndModify|update|delete|insert/.test(commandName)) return;
      // Agenda's looks find nothing most of the time
      if (commandName === 'findAndModify' && !command.upsert) return;
      const name = commandName === 'findAndModify' ? 'upsert' : commandName;
      commands.set(name, (commands.get(name) ?? 0) + 1);
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

  it('cost a few writes for all retries of a second, however many there are', async function () {
    // on a busy machine the attempts end in several seconds: the least of three bursts counts
    this.retries(2);
    receiver.answers(...Array.from({ length: 30 }, () => 500), 200);
    const events = await publish(30);
    for (const { id } of events) await gateway.delivery(id, ended);
    await none();

    // each is saved, started, ended and removed
    const jobs = commands.get('upsert') ?? 0;
    expect(jobs).to.be.within(1, 3);
    expect(Object.fromEntries(commands)).to.deep.equal({ upsert: jobs, update: 2 * jobs, delete: jobs });
  });
});
