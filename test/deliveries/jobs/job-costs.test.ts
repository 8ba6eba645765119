import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { HeldClock, whileClockStands } from '../../support/clock.ts';
import { freshUri } from '../../support/mongo.ts';
import { eventually } from '../../support/until.ts';
import {
  type DeliveryServices,
  ended,
  type FakeWebhooks,
  fakeWebhooks,
  payment,
  startDeliveryServices,
  unhurried,
} from '../delivery-services.ts';
import { startReceiver, type TestReceiver } from '../receiver.ts';

/** Does this while the clocks stand, and timers of a second do not end, so that all of it falls into one second, however long it takes. */
async function inOneSecond<T>(work: () => Promise<T>): Promise<T> {
  const clock = new HeldClock(1_000);
  try {
    return await whileClockStands(() => whileClockStands(work, performance));
  } finally {
    clock.release();
  }
}

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
    gateway = await startDeliveryServices(connection, webhooks, { retryDelays: [2_500], ...unhurried });
    await gateway.start();
    commands = new Map();
    let upkeeps = 0;
    const startedAt = performance.now();
    connection.getClient().on('commandStarted', ({ commandName, command }) => {
      if (command[commandName] !== 'gateway_jobs' || !/findAndModify|update|delete|insert/.test(commandName)) return;
      // Agenda's looks find nothing most of the time
      if (commandName === 'findAndModify' && !command.upsert) return;
      const isUpkeep = commandName === 'delete' && command.deletes.some(({ q }: { q: object }) => '$expr' in q);
      if (isUpkeep) upkeeps += 1;
      // it comes every ten seconds, however long the test is
      if (isUpkeep && upkeeps <= 1 + (performance.now() - startedAt) / 10_000) return;
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

  it('cost nothing when the first attempt begins at once and succeeds', async () => {
    const events = await publish(10);
    for (const { id } of events) await gateway.delivery(id, ended);

    expect([...commands]).to.deep.equal([]);
  });

  it('cost a few writes for all retries of a second, however many there are', async () => {
    receiver.answers(...Array.from({ length: 30 }, () => 500), 200);
    const events = await inOneSecond(async () => {
      const published = await publish(30);
      for (const { id } of published) await gateway.delivery(id, ({ attempts }) => attempts.length > 0);
      return published;
    });
    for (const { id } of events) await gateway.delivery(id, ended);
    await none();

    // each is saved, started, ended and removed
    const jobs = commands.get('upsert') ?? 0;
    expect(jobs).to.be.within(1, 3);
    expect(Object.fromEntries(commands)).to.deep.equal({ upsert: jobs, update: 2 * jobs, delete: jobs });
  });
});
