import { expect } from 'chai';
import { watchedDatabase } from '../../support/commands.ts';
import { eventually } from '../../support/until.ts';
import {
  type DeliveryServices,
  type FakeWebhooks,
  fakeWebhooks,
  payment,
  startDeliveryServices,
  unhurried,
} from '../delivery-services.ts';
import { hang, startReceiver, type TestReceiver } from '../receiver.ts';

const collections = ['gateway_events', 'gateway_deliveries', 'gateway_jobs'] as const;

describe('More events than there is room for', () => {
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  let webhooks: FakeWebhooks;
  let gateway: DeliveryServices;
  let receiver: TestReceiver;

  beforeEach(async () => {
    database = await watchedDatabase();
    webhooks = fakeWebhooks();
    receiver = await startReceiver();
    gateway = await startDeliveryServices(database.connection, webhooks, { sweepInterval: 60_000, ...unhurried });
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
    ['to one webhook', 150, 1],
    ['to ten webhooks each', 15, 10],
  ] as const) {
    it(`${what}, published by a process without workers, are delivered with one write each, and few commands`, async () => {
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
      // 0.1 to 0.2; on a busy machine, where fewer outcomes come together, up to 0.5; one by one, three and more
      expect(commands / (count * targets), 'commands for a delivery').to.be.below(0.75);
    });
  }

  it('published by a worker are delivered with one write each', async () => {
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
    // longer than the test may take
    const attemptTimeout = 180_000;
    gateway = await startDeliveryServices(database.connection, webhooks, { sweepInterval: 50, attemptTimeout });
    webhooks.add(receiver.url, { userId: 'usr_2' });
    receiver.answers(hang);
    await Promise.all(Array.from({ length: 1_000 }, () => gateway.publish({ ...payment, userId: 'usr_2' })));
    const quick = await startReceiver();
    webhooks.add(quick.url);
    await publish(20);
    await gateway.start();
    expect(await quick.count(20)).to.have.length(20);
    await quick.stop();
  });
});
