import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { FanOut } from '../../../src/deliveries/fan-out.ts';
import type { BeginFirst } from '../../../src/deliveries/scheduler.ts';
import { durableCollection } from '../../../src/mongo/collection.ts';
import { PendingWork } from '../../../src/pending-work.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshUri, uriOf } from '../../support/mongo.ts';
import { eventually, until } from '../../support/until.ts';
import {
  type DeliveryServices,
  ended,
  type FakeWebhooks,
  fakeWebhooks,
  payment,
  startDeliveryServices,
  unhurried,
} from '../delivery-services.ts';
import { hang, startReceiver, type TestReceiver } from '../receiver.ts';

describe('A fan-out', () => {
  let connection: Connection;
  let webhooks: FakeWebhooks;
  let gateway: DeliveryServices;
  let receiver: TestReceiver;
  let writes: { collection: string; documents: number }[];
  const seen: { name: string; collection: unknown }[] = [];

  beforeEach(async () => {
    connection = await mongoose.createConnection(freshUri(), { monitorCommands: true }).asPromise();
    webhooks = fakeWebhooks();
    gateway = await startDeliveryServices(connection, webhooks);
    receiver = await startReceiver();
    writes = [];
    seen.length = 0;
    connection.getClient().on('commandStarted', ({ commandName, command }) => {
      seen.push({ name: commandName, collection: command[commandName] });
      if (commandName === 'insert') writes.push({ collection: command.insert, documents: command.documents.length });
    });
  });
  afterEach(async () => {
    await gateway.close();
    await receiver.stop();
    await connection.dropDatabase();
    await connection.close();
  });

  const commandsTo = (collection: string) =>
    seen.filter((one) => one.collection === collection).map(({ name }) => name);
  const writtenTo = (collection: string) => commandsTo(collection).filter((name) => /insert|update|delete/.test(name));
  const writesTo = (collection: string) => writes.filter((write) => write.collection === collection);

  /** Until the event is marked as fanned out. */
  async function fannedOut(id: string): Promise<void> {
    await eventually(
      () => gateway.events.findById(id).lean(),
      (event) => event?.fanOut === 'done',
    );
  }

  it('to 10,000 webhooks is written in batches, from an event below 1 MB', async function () {
    this.timeout(60_000);
    for (let i = 0; i < 10_000; i += 1) webhooks.add(receiver.url);
    await gateway.start();
    const { id } = await gateway.publish(payment);
    await fannedOut(id);
    const [event] = await gateway.events.aggregate([{ $project: { size: { $bsonSize: '$$ROOT' } } }]);

    expect(await gateway.deliveries.countDocuments({ eventId: id })).to.equal(10_000);
    expect(Math.max(...writesTo('gateway_deliveries').map(({ documents }) => documents))).to.be.at.most(500);
    expect(event.size).to.be.below(1_000_000);
  });

  it('of many events at the same moment takes one write of events, and few of deliveries', async function () {
    // a process that the machine keeps waiting shares each write among fewer: the least of three bursts counts
    this.retries(2);
    webhooks.add(receiver.url);
    await gateway.start();
    await gateway.publish(payment);
    await receiver.count(1);
    writes = [];
    seen.length = 0;
    const events = await Promise.all(Array.from({ length: 40 }, () => gateway.publish(payment)));
    for (const { id } of events) await gateway.delivery(id, ended);

    expect(writesTo('gateway_events').map(({ documents }) => documents)).to.deep.equal([40]);
    expect(writesTo('gateway_deliveries').length).to.be.at.most(15);
    await eventually(
      () => gateway.events.countDocuments({ fanOut: 'pending' }),
      (left) => left === 0,
    );
    const written = seen.filter(
      ({ name, collection }) => /insert|update/.test(name) && /events|deliveries/.test(String(collection)),
    );
    // one by one they would be three; on an idle machine it is half of one
    expect(written.length / events.length, 'writes for a delivery').to.be.below(1);
  });

  it('makes first attempts at once: their outcome is the first write, and they need no job', async () => {
    webhooks.add(receiver.url);
    await gateway.close();
    gateway = await startDeliveryServices(connection, webhooks, unhurried);
    await gateway.start();
    // a start removes overdue jobs
    seen.length = 0;
    const { id } = await gateway.publish(payment);
    const delivery = await gateway.delivery(id);
    await fannedOut(id);

    expect(delivery).to.include({ state: 'delivered', attempt: 1, starts: 0, lease: null });
    expect(delivery).not.to.have.property('claimableAt');
    expect(delivery.attempts).to.have.length(1);
    expect(writtenTo('gateway_events')).to.deep.equal(['insert', 'update']);
    expect(writtenTo('gateway_deliveries')).to.deep.equal(['insert']);
    expect(writtenTo('gateway_jobs')).to.deep.equal([]);
  });

  it('records the time at which an attempt was made, however long the event took to be stored', async () => {
    webhooks.add(receiver.url);
    await gateway.start();
    const blockTimeMS = 700;
    const data = { namespace: `${connection.name}.gateway_events`, failCommands: ['insert'], blockConnection: true };
    const admin = connection.getClient().db('admin');
    await admin.command({ configureFailPoint: 'failCommand', mode: { times: 1 }, data: { ...data, blockTimeMS } });
    const { id } = await gateway.publish(payment);
    const { attempts, dueAt } = await gateway.delivery(id, ended);
    const after = Number(attempts[0]?.startedAt) - Number(dueAt);

    expect(after).to.be.within(blockTimeMS - 50, blockTimeMS + 10_000);
  });

  for (const [what, answer, state] of [
    ['pending, with a job for the next attempt, when it may be tried again', 500, 'pending'],
    ['canceled when the webhook takes it no more', undefined, 'canceled'],
  ] as const) {
    it(`stores a delivery in one write as ${what}`, async () => {
      const webhookId = webhooks.add(receiver.url);
      if (answer === undefined) {
        const { forDelivery, subscribers } = webhooks;
        webhooks.forDelivery = async (id) => ({ ...(await forDelivery(id)), active: false }) as never;
        webhooks.subscribers = async (event) => ({ ...(await subscribers(event)), target: () => undefined });
      } else receiver.answers(answer);
      await gateway.close();
      gateway = await startDeliveryServices(connection, webhooks, { retryDelays: [60_000], ...unhurried });
      await gateway.start();
      seen.length = 0;
      const { id } = await gateway.publish(payment);
      const delivery = await gateway.delivery(id);
      await fannedOut(id);

      expect(delivery).to.deep.include({ state, webhookId, starts: 0, lease: null });
      expect(writtenTo('gateway_deliveries')).to.have.length(1);
      if (state === 'canceled') return;
      expect(delivery).to.include({ attempt: 2 });
      const [{ startedAt, durationMs } = expect.fail('no attempt')] = delivery.attempts;
      expect(Number(delivery.dueAt)).to.be.at.least(Number(startedAt) + durationMs + 60_000);
      expect(delivery.claimableAt).to.deep.equal(delivery.dueAt);
      const jobs = () => connection.collection('gateway_jobs').find().toArray();
      const [job] = await eventually(jobs, ({ length }) => length === 1);
      expect(job?.data).to.deep.include({ deliveryId: delivery._id, attempt: 2 });
    });
  }

  it('shows a slow attempt as in flight, under a lease', async () => {
    webhooks.add(receiver.url);
    receiver.answers(hang);
    await gateway.start();
    const { id } = await gateway.publish(payment);
    const { lease, starts, state } = await gateway.delivery(id);
    await fannedOut(id);
    const [shown] = (await gateway.history.list('usr_1')).deliveries;

    expect([state, starts]).to.deep.equal(['pending', 1]);
    expect(lease?.owner).to.match(/^wrk_/);
    expect(shown).to.include({ state: 'pending', inFlight: true });
  });

  it('stores deliveries that it has no room for', async () => {
    webhooks.add(receiver.url);
    receiver.answers(hang);
    await gateway.close();
    gateway = await startDeliveryServices(connection, webhooks, { concurrency: 1, concurrencyPerWebhook: 1 });
    await gateway.start();
    await Promise.all(Array.from({ length: 20 }, () => gateway.publish(payment)));
    const count = (filter: object) => gateway.deliveries.countDocuments(filter);
    await eventually(
      () => count({}),
      (all) => all === 20,
    );

    expect(await count({ lease: null, starts: 0, state: 'pending' })).to.be.at.least(10);
    expect(receiver.received).to.have.length(1);
  });

  it('is left to workers by a process without any, which makes a single insert', async () => {
    webhooks.add(receiver.url);
    const { id } = await gateway.publish(payment);
    // shows that nothing more happens
    await new Promise((resolve) => setTimeout(resolve, 500));

    expect(commandsTo('gateway_events')).to.deep.equal(['insert']);
    expect(commandsTo('gateway_deliveries')).to.deep.equal([]);
    expect(commandsTo('gateway_jobs')).to.deep.equal([]);
    expect(seen.filter(({ name }) => /Transaction|killSessions/.test(name))).to.deep.equal([]);
    expect(await gateway.events.findById(id).lean()).to.include({ fanOut: 'pending', fanOutLeases: 0 });
  });

  it('sends nothing to a webhook that was paused after the event was accepted', async () => {
    const id = webhooks.add(receiver.url);
    await gateway.start();
    const { subscribers } = webhooks;
    webhooks.subscribers = async (...given) => {
      const found = await subscribers(...given);
      Object.assign(webhooks.webhooks.get(id) ?? {}, { active: false });
      return found;
    };
    gateway = await startDeliveryServices(connection, webhooks).then(async (paused) => {
      await gateway.close();
      await paused.start();
      return paused;
    });
    const event = await gateway.publish(payment);
    const delivery = await gateway.delivery(event.id, ended);

    expect([delivery.state, delivery.reason]).to.deep.equal(['canceled', 'webhook_inactive']);
    expect(receiver.received).to.have.length(0);
  });

  it('is not marked as done when the event gets another target meanwhile, which gets it too', async () => {
    webhooks.add(receiver.url);
    receiver.answers(hang);
    await gateway.start();
    const { id } = await gateway.publish(payment);
    await receiver.count(1);
    const added = webhooks.add(receiver.url);
    // as a repetition of the publication does that finds it subscribed
    await gateway.events.updateOne({ _id: id }, { $addToSet: { targets: added } });
    receiver.answers(200);
    const [late] = await eventually(
      () => gateway.deliveries.find({ eventId: id, webhookId: added }).lean(),
      ([delivery]) => delivery?.state === 'delivered',
    );
    await fannedOut(id);
    expect(late).to.include({ state: 'delivered', webhookId: added });
  });

  it('is left to the process that makes it, so that a slow database makes it send nothing twice', async () => {
    webhooks.add(receiver.url);
    const appName = 'slow-fan-out';
    const slow = await mongoose.createConnection(uriOf(connection.name), { appName }).asPromise();
    const own = await startDeliveryServices(slow, webhooks, { sweepInterval: 2_000 });
    const namespace = `${connection.name}.gateway_deliveries`;
    const data = { appName, namespace, failCommands: ['insert'], blockConnection: true, blockTimeMS: 7_000 };
    const admin = connection.getClient().db('admin');
    await admin.command({ configureFailPoint: 'failCommand', mode: { times: 1 }, data });
    try {
      await own.start();
      await gateway.start();
      const { id } = await own.publish(payment);
      const { attempts } = await gateway.delivery(id, ended);
      await fannedOut(id);

      expect(attempts).to.have.length(1);
      expect(receiver.received).to.have.length(1);
      expect(await gateway.events.findById(id).lean(), 'nobody else has had it').to.include({ fanOutLeases: 1 });
    } finally {
      await admin.command({ configureFailPoint: 'failCommand', mode: 'off' });
      await own.close();
      await slow.close();
    }
  });

  it('cancels nothing by a read of a webhook from before the event was stored', async () => {
    const id = webhooks.add(receiver.url);
    const { forDelivery, subscribers } = webhooks;
    let reads = 0;
    webhooks.forDelivery = async (webhookId) => {
      reads += 1;
      return forDelivery(webhookId);
    };
    webhooks.subscribers = async (published) => {
      const found = await subscribers(published);
      return { ...found, target: (webhookId) => ({ ...(found.target(webhookId) ?? expect.fail()), active: false }) };
    };
    await gateway.close();
    gateway = await startDeliveryServices(connection, webhooks);
    await gateway.start();
    const event = await gateway.publish(payment);
    const delivery = await gateway.delivery(event.id, ended);

    expect(delivery).to.include({ state: 'delivered', webhookId: id });
    expect(reads).to.equal(1);
  });

  it('reads no webhook again that the look-up of subscribers has just read, unless a replaced primary may have answered it', async () => {
    webhooks.add(receiver.url);
    let reads = 0;
    const { forDelivery } = webhooks;
    webhooks.forDelivery = async (webhookId) => {
      reads += 1;
      return forDelivery(webhookId);
    };
    await gateway.close();
    gateway = await startDeliveryServices(connection, webhooks);
    await gateway.start();
    await gateway.delivery((await gateway.publish(payment)).id, ended);
    expect(reads).to.equal(0);

    const event = (await durableCollection(gateway.events).findOne({})) ?? expect.fail();
    const held = { heldUntil: performance.now() + 4_500, since: { time: new Date(), monotonic: 0 }, isFirst: true };
    const again = { ...event, _id: `${event._id}2`, deliveryKey: Buffer.alloc(16, 1) };
    const unused = () => expect.fail('used');
    gateway.fanOut.prepare()?.begin({ event: again as never, lease: held });
    await gateway.delivery(again._id, ended);
    expect(reads).to.equal(1);

    const late = { ...event, _id: `${event._id}3`, deliveryKey: Buffer.alloc(16, 2) };
    gateway.fanOut
      .prepare()
      ?.begin({ event: late as never, lease: held }, { target: unused, readAt: performance.now() - 251 });
    await gateway.delivery(late._id, ended);
    expect(reads).to.equal(2);
  });

  it('uses the webhooks that its publisher has read for attempts that begin within 250 ms, also those that waited', async () => {
    const begins: BeginFirst[] = [];
    const target = { url: receiver.url } as never;
    const fanOut = new FanOut({
      outbox: { markFannedOut: async () => {} },
      claims: {
        first: () => ({ claim: {} as never, whenStored: Promise.resolve() }),
        store: () => expect.fail('stored'),
      },
      scheduler: {
        isWorking: true,
        look: () => {},
        first(_, begin) {
          begins.push(begin);
          return new Promise(() => {});
        },
      },
      renewEvents: async () => {},
      retryDelays: [],
      lease: 4_500,
      pendingWork: new PendingWork(),
      logger: silentLogger,
    });
    const { id } = await gateway.publish(payment);
    const event = (await durableCollection(gateway.events).findOne({ _id: id })) ?? expect.fail();
    const lease = { heldUntil: performance.now() + 4_500, since: { time: new Date(), monotonic: 0 }, isFirst: true };
    fanOut
      .prepare()
      ?.begin({ event: { ...event, targets: ['wh_1'] }, lease }, { target: () => target, readAt: performance.now() });
    await until(() => begins.length === 1);
    const begin = begins[0] ?? expect.fail();
    expect(begin()?.target).to.equal(target);
    // later than 250 ms after the read
    await sleep(260);
    expect(begin()).to.deep.include({ target: undefined });
  });
});
