import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { createUnfinishedEvents } from '../../../src/deliveries/due.ts';
import { FanOut, type FanOutDeps, firstDelivery } from '../../../src/deliveries/fan-out.ts';
import { createClaimEvents, createOutbox, createRenewEvents } from '../../../src/events/outbox.ts';
import type { Logger } from '../../../src/index.ts';
import { createDatabaseClock } from '../../../src/mongo/clock.ts';
import { durableCollection } from '../../../src/mongo/collection.ts';
import { PendingWork } from '../../../src/pending-work.ts';
import { settled } from '../../events/harness.ts';
import { whileClockStands } from '../../support/clock.ts';
import { silentLogger } from '../../support/logger.ts';
import { freshDatabase } from '../../support/mongo.ts';
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
import { largeEvents } from '../large-events.ts';
import { hang, startReceiver, type TestReceiver } from '../receiver.ts';

/** More than one page of the sweep, all accepted at the same moment. */
const corruptCount = 250;
const longAgo = new Date(Date.now() - 60_000);

describe('The sweep of unfinished fan-outs', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let receiver: TestReceiver;
  let gateway: DeliveryServices;
  let webhooks: FakeWebhooks;
  let logger: Logger;
  let logged: { message: string; [field: string]: unknown }[];

  beforeEach(async () => {
    logged = [];
    const log = (message: string, fields?: object) => void logged.push({ message, ...fields });
    database = await freshDatabase();
    receiver = await startReceiver();
    webhooks = fakeWebhooks();
    webhooks.add(receiver.url);
    logger = { ...silentLogger, warn: log, error: log };
    gateway = await startDeliveryServices(database.connection, webhooks, { sweepInterval: 50, logger });
  });
  afterEach(async () => {
    // before: nobody waits for a receiver that hangs
    await receiver.stop();
    await gateway.close();
    await database.drop();
  });

  /** An event that its publisher stored and did not live to fan out. */
  async function unfinished(): Promise<string> {
    const { id } = await gateway.publish(payment);
    await eventually(
      () => gateway.events.findById(id).lean(),
      (event) => event?.fanOut === 'done' || event?.fanOutLeases === 0,
    );
    await gateway.deliveries.deleteMany({ eventId: id });
    await gateway.events.updateOne({ _id: id }, { fanOut: 'pending', fanOutAt: new Date() });
    return id;
  }

  /** Stores copies of an event that lack what a fan-out takes, older than the event. */
  async function corrupt(id: string): Promise<void> {
    const event = await gateway.events.findById(id).lean();
    const damages = [
      { targets: [42] },
      { targets: [{}] },
      { targets: 'wh_1' },
      { deliveryKey: null },
      { created: 'now' },
    ];
    const copies = Array.from({ length: corruptCount }, (_, i) => ({
      ...event,
      ...damages[i % damages.length],
      _id: `evt_${String(i).padStart(4, '0')}`,
      idempotencyKey: `corrupt ${i}`,
      fanOutAt: longAgo,
    }));
    await gateway.events.collection.insertMany(copies as never[]);
  }

  it('skips events that cannot be fanned out, and logs them once', async () => {
    const id = await unfinished();
    await corrupt(id);
    await gateway.close();
    // no lease ends meanwhile: what waits for one is not delivered
    gateway = await startDeliveryServices(database.connection, webhooks, { sweepInterval: 50, logger, ...unhurried });
    await gateway.start();
    expect((await gateway.delivery(id, ended)).state).to.equal('delivered');

    const lines = logged.length;
    expect(lines).to.be.within(1, 3);
    expect(JSON.stringify(logged)).to.include('evt_0000');
    const next = await unfinished();
    expect((await gateway.delivery(next, ended)).state).to.equal('delivered');
    expect(logged).to.have.length(lines);
    expect(await gateway.deliveries.countDocuments({ eventId: /^evt_\d{4}$/ }), 'none of a corrupt event').to.equal(0);
  });

  it('fans out an event without a body only to end its deliveries', async () => {
    const id = await unfinished();
    await gateway.events.collection.updateOne({ _id: id as never }, { $unset: { body: 1 } });
    const next = await unfinished();
    await gateway.start();

    expect((await gateway.delivery(next, ended)).state).to.equal('delivered');
    expect((await gateway.delivery(id, ended)).state).not.to.equal('delivered');
  });

  it('fans out an event without lease fields or with invalid ones, and those beside it', async () => {
    const id = await unfinished();
    const event = await gateway.events.findById(id).lean();
    const { fanOutLeases: _, fanOutAt: __, ...before } = { ...event, _id: `${id}1`, idempotencyKey: 'before' };
    const nonsense = { ...event, _id: `${id}2`, idempotencyKey: 'nonsense', fanOutLeases: 'two', fanOutAt: 'then' };
    await gateway.events.collection.insertMany([before, nonsense] as never[]);
    await gateway.start();

    for (const one of [id, `${id}1`, `${id}2`]) {
      expect((await gateway.delivery(one, ended)).state, one).to.equal('delivered');
    }
    expect(logged).to.deep.equal([]);
  });

  it('counts a start for attempts that may have begun, and none for deliveries stored for lack of room', async () => {
    const begun = webhooks.add(receiver.url);
    receiver.answers(hang);
    const id = await unfinished();
    await gateway.events.updateOne({ _id: id }, { fanOutLeases: 1 });
    const event = await durableCollection(gateway.events).findOne({ _id: id });
    if (!event) return expect.fail('no event');
    const [other = ''] = event.targets;
    await gateway.deliveries.create(firstDelivery(event, other, 6));
    await gateway.start();
    const inFlight = await eventually(
      () => gateway.ofEvent(id),
      (deliveries) => deliveries.length === 2 && deliveries.every(({ lease }) => lease !== null),
    );

    const starts = Object.fromEntries(inFlight.map((delivery) => [delivery.webhookId, delivery.starts]));
    expect(starts).to.deep.equal({ [other]: 1, [begun]: 2 });
  });

  it('reads a webhook once for the attempts of a page that begin at once, and again for those that begin later', async () => {
    await gateway.close();
    let reads = 0;
    const { forDelivery } = webhooks;
    webhooks.forDelivery = async (id) => {
      reads += 1;
      return forDelivery(id);
    };
    gateway = await startDeliveryServices(database.connection, webhooks, { concurrencyPerWebhook: 2 });
    // two places, and one of the two that may be claimed ahead
    const ids = [await unfinished(), await unfinished(), await unfinished()];
    await whileClockStands(async () => {
      await gateway.start();
      for (const id of ids) expect((await gateway.delivery(id, ended)).state).to.equal('delivered');
    }, performance);
    expect(reads).to.equal(1);

    await gateway.close();
    reads = 0;
    // a place, and one ahead: the third begins when the read is more than 250 ms old
    gateway = await startDeliveryServices(database.connection, webhooks, { concurrency: 1 });
    const inTurn = [await unfinished(), await unfinished(), await unfinished()];
    await whileClockStands(async (pass) => {
      receiver.answers((res) => {
        pass(300);
        res.writeHead(200).end();
      });
      await gateway.start();
      for (const id of inTurn) expect((await gateway.delivery(id, ended)).state).to.equal('delivered');
    }, performance);
    expect(reads).to.equal(2);
  });

  it('cancels the deliveries of a page whose webhook is gone, and sends those whose webhook could be read', async () => {
    const gone = webhooks.add(receiver.url);
    const unreadable = webhooks.add(receiver.url);
    const id = await unfinished();
    webhooks.webhooks.delete(gone);
    const { forDelivery } = webhooks;
    await gateway.close();
    let isReadable = false;
    webhooks.forDelivery = async (webhookId) => {
      if (webhookId === unreadable && !isReadable) throw new Error('its secret cannot be opened');
      return forDelivery(webhookId);
    };
    gateway = await startDeliveryServices(database.connection, webhooks);
    await gateway.start();
    const stateOf = async (webhookId: string) =>
      (await gateway.ofEvent(id)).find((delivery) => delivery.webhookId === webhookId)?.state;
    await eventually(
      () => Promise.all([stateOf('wh_1'), stateOf(gone)]),
      ([sent, canceled]) => sent === 'delivered' && canceled === 'canceled',
    );
    isReadable = true;
    await eventually(
      () => stateOf(unreadable),
      (state) => state === 'delivered',
    );
  });

  it('takes no more events than fit in memory, and continues when some have ended', async () => {
    const { events } = gateway;
    const size = 200 * 1024;
    const large = largeEvents(180, size, longAgo);
    await events.collection.insertMany(large as never[]);
    const outbox = createOutbox(events, createDatabaseClock(events.db));
    const lease = 60_000;
    /** Ends the attempts of the events that are held, in the order in which they were taken. */
    const ends: (() => void)[] = [];
    const fanOut = new FanOut({
      outbox: { markFannedOut: async () => {} },
      claims: {
        first: () => ({ claim: {}, whenStored: new Promise<void>((resolve) => ends.push(resolve)) }),
        store: async () => expect.fail('there is a place for every attempt'),
      } as unknown as FanOutDeps['claims'],
      scheduler: {
        isWorking: true,
        first: (_, begin) => (begin() ? 'begun' : 'no room'),
        look() {},
      },
      renewEvents: createRenewEvents(events),
      retryDelays: [],
      lease,
      pendingWork: new PendingWork(),
      logger: silentLogger,
    });
    async function release(i: number): Promise<void> {
      ends[i]?.();
      await nextTurn();
    }
    const sweep = createUnfinishedEvents({
      outbox,
      take: createClaimEvents(events, createDatabaseClock(events.db)),
      lease,
      settleSubscribers: settled,
      target: webhooks.forDelivery,
      fanOut,
      scheduler: { wantedFirsts: 1_000 },
      logger: silentLogger,
    });
    async function look(): Promise<boolean> {
      const page = sweep.page();
      return sweep.take(page ? await events.aggregate(page.pipeline as never) : []);
    }
    while (await look());

    expect(ends.length * size).to.be.within(30 * 1024 * 1024, 33 * 1024 * 1024);
    const before = ends.length;
    // a sweep that has taken nothing for a second takes one more all the same, so a slow database may have left it too much
    for (let i = 0; fanOut.room < 2 * size; i += 1) await release(i);
    while (await look());
    expect(ends.length).to.be.within(before + 1, before + 3);
    for (const i of ends.keys()) await release(i);
    while (await look());
    expect(ends).to.have.length(large.length);
    for (const i of ends.keys()) await release(i);
  });

  it('continues with waiting events even if publications leave one place at a time', async () => {
    const { events } = gateway;
    const waiting = Array.from({ length: 300 }, (_, i) => ({
      _id: `evt_${String(i).padStart(4, '0')}`,
      userId: 'usr_1',
      idempotencyKey: `key ${i}`,
      targets: ['wh_1'],
      fanOut: 'pending',
      fanOutAt: longAgo,
      fanOutLeases: 0,
    }));
    await events.collection.insertMany(waiting as never[]);
    let begun = 0;
    const sweep = createUnfinishedEvents({
      outbox: createOutbox(events, createDatabaseClock(events.db)),
      take: createClaimEvents(events, createDatabaseClock(events.db)),
      lease: 60_000,
      settleSubscribers: settled,
      target: webhooks.forDelivery,
      fanOut: {
        async fanOut() {
          begun += 1;
        },
        room: 1_000_000,
      },
      scheduler: { wantedFirsts: 1 },
      logger: silentLogger,
    });
    let looks = 0;
    while (begun < waiting.length) {
      const page = sweep.page();
      await sweep.take(page ? await events.aggregate(page.pipeline as never) : []);
      looks += 1;
      // the pace of a sweep
      await sleep(50);
    }
    expect(looks).to.be.below(100);
  });

  it('reads a page as a range of an index, however many events are pending', async () => {
    const { events } = gateway;
    const outbox = createOutbox(events, createDatabaseClock(events.db));
    const take = createClaimEvents(events, createDatabaseClock(events.db));
    const pending = Array.from({ length: 2_000 }, (_, i) => ({
      _id: `evt_${String(i).padStart(4, '0')}`,
      userId: 'usr_1',
      idempotencyKey: `key ${i}`,
      fanOut: 'pending',
      fanOutAt: longAgo,
      fanOutLeases: 0,
    }));
    await events.collection.insertMany(pending as never[]);
    const seen: string[] = [];
    for (;;) {
      const { pipeline } = outbox.unfinished(300);
      const page = await events.aggregate<{ _id: string; userId: string }>(pipeline as never);
      const explained = await events.collection.aggregate(pipeline as never).explain('executionStats');
      const plan = JSON.stringify(explained, (key, value) => (key === 'rejectedPlans' ? undefined : value));
      expect(plan)
        .to.include('"indexName":"unfinishedFanOut"')
        .and.not.match(/"stage":"(SORT|COLLSCAN)"/);
      expect(Number(/"totalDocsExamined":(\d+)/.exec(plan)?.[1])).to.be.at.most(300);
      expect(Number(/"totalKeysExamined":(\d+)/.exec(plan)?.[1])).to.be.at.most(301);
      const ids = page.map(({ _id }) => _id);
      if (ids.length === 0) break;
      expect(await take(page, 60_000)).to.have.length(ids.length);
      expect(await take(page, 60_000), 'they are held').to.have.length(0);
      seen.push(...ids);
    }

    expect(seen).to.deep.equal(pending.map(({ _id }) => _id));
  });
});
