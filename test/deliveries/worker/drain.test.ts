import { expect } from 'chai';
import { watchedDatabase } from '../../support/commands.ts';
import { eventually } from '../../support/until.ts';
import {
  type DeliveryServices,
  type FakeWebhooks,
  fakeWebhooks,
  payment,
  startDeliveryServices,
} from '../delivery-services.ts';
import { hang, startReceiver, type TestReceiver } from '../receiver.ts';

const collections = ['gateway_events', 'gateway_deliveries', 'gateway_jobs'] as const;

describe('More events than there is room for', function () {
  this.timeout(60_000);
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  let webhooks: FakeWebhooks;
  let gateway: DeliveryServices;
  let receiver: TestReceiver;

  beforeEach(async () => {
    database = await watchedDatabase();
    webhooks = fakeWebhooks();
    receiver = await startReceiver();
    gateway = await startDeliveryServices(database.connection, webhooks, { sweepInterval: 50 });
  });
  afterEach(async () => {
    // before: nobody waits for a receiver that hangs
    await receiver.stop();
    await gateway.close();
    await database.drop();
  });

  const publish = (count: number) => Promise.all(Array.from({ length: count }, () => gateway.publish(payment)));
  const all = (count: () => Promise<number>, expected: number) => eventually(count, (found) => found === expected);

  /** Deliveries that were inserted before their first attempt. */
  function storedAhead(): number {
    const inserts = database.commandsTo('gateway_deliveries').filter(({ name }) => name === 'insert');
    const documents = inserts.flatMap(({ command }) => command.documents as { state: string; lease: unknown }[]);
    return documents.filter(({ state, lease }) => state === 'pending' && lease === null).length;
  }

  for (const [what, count, targets] of [
    ['to one webhook', 400, 1],
    ['to ten webhooks each', 80, 10],
  ] as const) {
    it(`${what}, published by a process without workers, are delivered with one write each, and few commands`, async function () {
      // a process that the machine keeps waiting shares each command among fewer deliveries: the least of three bursts counts
      this.retries(2);
      for (let i = 0; i < targets; i += 1) webhooks.add(receiver.url);
      await publish(count);
      database.forget();
      await gateway.start();
      await receiver.count(count * targets);
      const ahead = storedAhead();
      const commands = collections.reduce((sum, name) => sum + database.commandsTo(name).length, 0);
      await all(() => gateway.deliveries.countDocuments({ state: 'delivered' }), count * targets);
      await all(() => gateway.events.countDocuments({ fanOut: 'done' }), count);

      expect(ahead, 'deliveries stored before their attempt').to.be.below(count * targets * 0.05);
      // one by one, they would be three and more
      expect(commands / (count * targets), 'commands for a delivery').to.be.below(0.25);
    });
  }

  it('published by a worker are delivered with one write each', async function () {
    // first attempts that wait too long for a place are stored: the least of three bursts counts
    this.retries(2);
    webhooks.add(receiver.url);
    await gateway.start();
    await publish(200);
    await receiver.count(200);
    const ahead = storedAhead();
    await all(() => gateway.deliveries.countDocuments({ state: 'delivered' }), 200);

    expect(ahead, 'deliveries stored before their attempt').to.be.below(10);
  });

  it('of a webhook that hangs do not make those of other accounts wait until its attempts are given up', async () => {
    await gateway.close();
    const attemptTimeout = 30_000;
    gateway = await startDeliveryServices(database.connection, webhooks, { sweepInterval: 50, attemptTimeout });
    webhooks.add(receiver.url, { userId: 'usr_2' });
    receiver.answers(hang);
    await Promise.all(Array.from({ length: 1_000 }, () => gateway.publish({ ...payment, userId: 'usr_2' })));
    const quick = await startReceiver();
    webhooks.add(quick.url);
    await publish(20);
    await gateway.start();
    // well before attemptTimeout
    expect(await quick.count(20, 20_000)).to.have.length(20);
    await quick.stop();
  });
});
