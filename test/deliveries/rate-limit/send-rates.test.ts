import { expect } from 'chai';
import { freshDatabase } from '../../support/mongo.ts';
import { eventually } from '../../support/until.ts';
import {
  type DeliveryServices,
  ended,
  type FakeWebhooks,
  fakeWebhooks,
  payment,
  startDeliveryServices,
} from '../delivery-services.ts';
import { type Received, startReceiver, type TestReceiver } from '../receiver.ts';

/** The shortest time in which so many requests in a row came. Milliseconds. */
function shortest(received: readonly Received[], count: number): number {
  const spans = received.slice(count - 1).map(({ at }, i) => at - (received[i]?.at ?? 0));
  return Math.min(...spans);
}

const ids = (received: readonly Received[]) => new Set(received.map(({ headers }) => headers['webhook-id']));

describe('A webhook with a rate limit', function () {
  this.timeout(60_000);
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let webhooks: FakeWebhooks;
  let limited: TestReceiver;
  let other: TestReceiver;
  const gateways: DeliveryServices[] = [];

  async function gateway(choices = {}): Promise<DeliveryServices> {
    const made = await startDeliveryServices(database.connection, webhooks, choices);
    gateways.push(made);
    return made;
  }

  beforeEach(async () => {
    database = await freshDatabase();
    webhooks = fakeWebhooks();
    limited = await startReceiver();
    other = await startReceiver();
  });
  afterEach(async () => {
    await Promise.all(gateways.splice(0).map((one) => one.close()));
    await Promise.all([limited.stop(), other.stop()]);
    await database.drop();
  });

  it('gets everything at its rate from two workers together, and does not delay another webhook', async function () {
    // it measures times, which a process that the machine keeps waiting changes: one of three measurements must hold
    this.retries(2);
    const id = webhooks.add(limited.url, { rateLimit: 20 });
    webhooks.add(other.url);
    const workers = [await gateway(), await gateway()] as const;
    await Promise.all(workers.map((worker) => worker.start()));
    const publish = (i: number) => workers[i % 2 ? 1 : 0].publish(payment);
    const events = await Promise.all(Array.from({ length: 80 }, (_, i) => publish(i)));

    const unlimited = await other.count(80);
    const received = await limited.count(80);
    expect(unlimited.at(-1)?.at).to.be.below(Number(received.at(-1)?.at));
    expect(ids(received)).to.deep.equal(new Set(events.map((event) => event.id)));
    expect(received).to.have.length(80);
    // 20 a second: 50 ms from one to the next, give or take what a busy machine delays
    expect(shortest(received, 80)).to.be.at.least(79 * 50 - 250);
    expect(shortest(received, 41)).to.be.at.least(40 * 50 - 400);

    const deliveries = await eventually(
      () => workers[0].deliveries.find({ webhookId: id }).lean(),
      (found) => found.length === 80 && found.every(({ state }) => state === 'delivered'),
    );
    for (const { attempts, attempt } of deliveries) {
      expect(attempts.map(({ number }) => number)).to.deep.equal([1]);
      expect(attempt).to.equal(1);
    }
  });

  it('leaves the places of workers to others, however much is due to it', async function () {
    // it measures times, which a process that the machine keeps waiting changes: one of three measurements must hold
    this.retries(2);
    webhooks.add(limited.url, { rateLimit: 5 });
    const worker = await gateway({ concurrency: 10 });
    await Promise.all(Array.from({ length: 150 }, () => worker.publishStored(payment)));
    webhooks.add(other.url, { events: ['credits.low'] });
    await worker.start();
    await limited.count(3);
    const low = {
      type: 'credits.low',
      userId: 'usr_1',
      data: { user_id: 'usr_1', credits_remaining: 5, threshold: 10 },
    };
    for (let i = 0; i < 20; i += 1) {
      await worker.publish(low);
      await other.count(i + 1, 1_000);
    }
    const before = limited.received.length;
    const received = await limited.count(before + 10);
    expect(shortest(received, 11)).to.be.at.least(10 * 200 - 250);
    const started = await worker.deliveries.countDocuments({ starts: { $gt: 0 } });
    expect(started).to.be.at.most(10);
  });

  it('limits retries too, and keeps the number of each attempt', async function () {
    // it measures times, which a process that the machine keeps waiting changes: one of three measurements must hold
    this.retries(2);
    limited.answers(500);
    webhooks.add(limited.url, { rateLimit: 10 });
    const worker = await gateway({ retryDelays: [1, 1] });
    await worker.start();
    const events = await Promise.all(Array.from({ length: 5 }, () => worker.publish(payment)));
    const deliveries = await Promise.all(events.map((event) => worker.delivery(event.id, ended)));
    for (const { state, attempts } of deliveries) {
      expect(state).to.equal('failed');
      expect(attempts.map(({ number }) => number)).to.deep.equal([1, 2, 3]);
    }
    expect(limited.received).to.have.length(15);
    expect(shortest(limited.received, 15)).to.be.at.least(14 * 100 - 250);
  });

  it('gets waiting deliveries when its limit is removed, even those of a worker that closed', async () => {
    const id = webhooks.add(limited.url, { rateLimit: 1 });
    const first = await gateway();
    await first.start();
    const events = await Promise.all(Array.from({ length: 50 }, () => first.publish(payment)));
    await limited.count(1);
    await first.close();
    const { rateLimit: _, ...unlimited } = webhooks.webhooks.get(id) ?? expect.fail();
    webhooks.webhooks.set(id, unlimited);
    const second = await gateway();
    await second.start();
    const received = await limited.count(50);
    expect(ids(received)).to.deep.equal(new Set(events.map((event) => event.id)));
  });
});
