import { expect } from 'chai';
import type { Connection } from 'mongoose';
import { createCount, RecentUsage } from '../../../src/accounting/count.ts';
import { CreditService } from '../../../src/accounting/credits.ts';
import { MinuteCounters, Sharing } from '../../../src/accounting/minute-counters.ts';
import { createAccountingModels } from '../../../src/accounting/model.ts';
import { createClosing, RefusedCalls } from '../../../src/accounting/refused-calls.ts';
import { UsageService } from '../../../src/accounting/usage-writer.ts';
import { createWriteAccount } from '../../../src/accounting/write-account.ts';
import { FanOut } from '../../../src/deliveries/fan-out.ts';
import { createJobs } from '../../../src/deliveries/jobs.ts';
import { createDeliveryModel, type DeliveryDocument } from '../../../src/deliveries/model.ts';
import { createEventModel } from '../../../src/events/model.ts';
import { createOutbox, type NewEvent, type StoredEvent } from '../../../src/events/outbox.ts';
import type { UsageRecord } from '../../../src/index.ts';
import { createKeyModel, markUsed } from '../../../src/keys/model.ts';
import { createLastUsed } from '../../../src/keys/verify-key.ts';
import { createDatabaseClock } from '../../../src/mongo/clock.ts';
import { durableCollection } from '../../../src/mongo/collection.ts';
import { PendingWork } from '../../../src/pending-work.ts';
import { createHealthModel, createTallyModel, createWebhookModel } from '../../../src/webhooks/model.ts';
import { createRecorder } from '../../../src/webhooks/recorder.ts';
import { createSubscriberLookup } from '../../../src/webhooks/subscribers.ts';
import { pendingDelivery } from '../../deliveries/attempt/pending-delivery.ts';
import { claimsOf } from '../../deliveries/claims-of.ts';
import { buildIndexes } from '../../support/database/indexes.ts';
import { newId } from '../../support/ids.ts';
import { freshDatabase } from '../../support/mongo.ts';

/** More than a document, and a message of the protocol, may hold. */
const huge = 'x'.repeat(17 * 1_048_576);
/** A text that the database takes for an operator. */
const operator = { $ne: 'x' } as unknown as string;

describe('An item that the database cannot take does not block the others:', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let connection: Connection;
  let logged: { message: string; [field: string]: unknown }[];
  const logger = {
    info() {},
    warn: (message: string, fields?: object) => void logged.push({ message, ...fields }),
    error: (message: string, fields?: object) => void logged.push({ message, ...fields }),
  };

  before(async () => {
    database = await freshDatabase();
    connection = database.connection;
  });
  beforeEach(() => {
    logged = [];
  });
  after(() => database.drop());

  /** What was set aside is logged in one line, which names no content. */
  function expectLoggedOnce(): void {
    expect(logged).to.have.length(1);
    expect(JSON.stringify(logged).length).to.be.below(300);
  }

  const statuses = async (calls: readonly Promise<unknown>[]) =>
    (await Promise.allSettled(calls)).map(({ status }) => status);
  const poisonedOne = ['fulfilled', 'rejected', 'fulfilled'];

  describe('events', () => {
    const event = (more: Partial<NewEvent> = {}): NewEvent => ({
      _id: newId('evt', Date.now()),
      userId: 'usr_1',
      type: 'payment.completed',
      created: new Date(),
      body: Buffer.from('{}'),
      contentHash: 'hash',
      targets: [],
      skipped: [],
      test: false,
      idempotencyKey: newId('req', Date.now()),
      deliveryKey: Buffer.alloc(16),
      ...more,
    });

    it('an event', async () => {
      const events = createEventModel(connection, 'gateway_');
      await events.createIndexes();
      const outbox = createOutbox(events, createDatabaseClock(connection));
      const group = [event(), event({ contentHash: huge }), event()];
      expect(await statuses(group.map((one) => outbox.store(one, 0)))).to.deep.equal(poisonedOne);
      expect(await events.countDocuments()).to.equal(2);
    });

    it('a body that is read, and an event that is marked as fanned out', async () => {
      const events = createEventModel(connection, 'bodies_');
      await events.createIndexes();
      const outbox = createOutbox(events, createDatabaseClock(connection));
      const [one, other] = [event(), event()];
      await Promise.all([outbox.store(one, 0), outbox.store(other, 0)]);
      const keys = [one._id, operator, other._id].map((_id) => ({ _id, userId: one.userId }));
      expect(await statuses(keys.map(outbox.body))).to.deep.equal(poisonedOne);
      expect(
        await statuses(keys.map((key) => outbox.markFannedOut({ ...key, targets: one.targets.length }))),
      ).to.deep.equal(poisonedOne);
    });

    it('a look-up of the webhooks of an account, and one of a webhook', async () => {
      const lookup = createSubscriberLookup(createWebhookModel(connection, 'gateway_'));
      const accounts = ['usr_1', huge, 'usr_2'];
      const type = 'payment.completed';
      const body = Buffer.from('{}');
      expect(await statuses(accounts.map((userId) => lookup.subscribers({ userId, type, body })))).to.deep.equal(
        poisonedOne,
      );
      expect(await statuses(['wh_1', operator, 'wh_2'].map(lookup.byId))).to.deep.equal(poisonedOne);
    });
  });

  describe('deliveries', () => {
    const past = new Date(Date.now() - 60_000);
    const delivery = (_id: string): DeliveryDocument => ({ ...pendingDelivery(_id), maxAttempts: 3 });

    it('a claim, and the outcome of an attempt', async () => {
      const deliveries = createDeliveryModel(connection, 'claims_');
      await deliveries.insertMany(['dlv_1', 'dlv_2', 'dlv_3'].map(delivery));
      const claims = claimsOf(deliveries);
      const claim = (deliveryId: string) => claims.claim({ deliveryId, attempt: 1 });
      expect(await statuses(['dlv_8', operator, 'dlv_9'].map(claim))).to.deep.equal(poisonedOne);

      const held = await Promise.all(['dlv_1', 'dlv_2', 'dlv_3'].map(claim));
      const outcomes = held.map((claim, i) => {
        if (!claim) throw new Error('not claimed');
        const result = { durationMs: 1, response: i === 1 ? huge : '' };
        return claims.record(claim, result, { state: 'delivered' });
      });
      expect(await statuses(outcomes)).to.deep.equal(poisonedOne);
      const states = await deliveries.find().sort({ _id: 1 }).lean();
      expect(states.map(({ state }) => state)).to.deep.equal(['delivered', 'pending', 'delivered']);
    });

    it('a delivery that a fan-out stores', async () => {
      const deliveries = createDeliveryModel(connection, 'fans_');
      const fanOut = new FanOut({
        outbox: { markFannedOut: async () => {} },
        claims: claimsOf(deliveries),
        scheduler: { isWorking: true, first: () => 'no room', look() {} },
        renewEvents: async () => {},
        retryDelays: [],
        lease: 9_000,
        pendingWork: new PendingWork(),
        logger,
      });
      const lease = { heldUntil: performance.now() + 9_000, since: { time: past, monotonic: 0 }, isFirst: true };
      const event = (_id: string, type: string) =>
        ({
          _id,
          userId: 'usr_1',
          type,
          test: false,
          created: past,
          acceptedAt: past,
          targets: ['wh_1'],
          deliveryKey: Buffer.alloc(16),
        }) as unknown as StoredEvent;
      const events = [event('evt_1', 'credits.low'), event('evt_2', huge), event('evt_3', 'credits.low')];
      expect(await statuses(events.map((event) => fanOut.fanOut({ event, lease })))).to.deep.equal(poisonedOne);
      expect(await deliveries.countDocuments()).to.equal(2);
    });
  });

  it('an Agenda job of one attempt among others, which is logged once', async () => {
    const jobs = createJobs({ connection, owner: 'wrk_1', collectionPrefix: 'bell_', lookAhead: 0, logger });
    const ref = (deliveryId: string) => ({ deliveryId, webhookId: 'wh_1', userId: 'usr_1', attempt: 1 });
    const dueIn = (seconds: number) => new Date((Math.floor(Date.now() / 1_000) + seconds) * 1_000);
    const attempts = [
      ['dlv_1', dueIn(60)],
      [huge, dueIn(61)],
      ['dlv_3', dueIn(61)],
      ['dlv_4', dueIn(62)],
    ] as const;
    await Promise.all(attempts.map(([id, dueAt]) => jobs.schedule(ref(id), dueAt)));
    const stored = await connection.collection('bell_jobs').find().sort({ 'data.deliveryId': 1 }).toArray();
    expect(stored.map(({ data }) => data.deliveryId)).to.deep.equal(['dlv_1', 'dlv_3', 'dlv_4']);
    expect(logged.map(({ message }) => message)).to.deep.equal([
      'a job was not stored; the sweep will start the attempt',
    ]);
    await jobs.stop();
  });

  describe('usage', () => {
    const record = (more: Partial<UsageRecord> = {}): UsageRecord => ({
      id: newId('use', Date.now()),
      requestId: 'req_1',
      userId: 'usr_1',
      keyId: null,
      endpoint: '/chat/completions',
      model: 'm',
      upstream: 'one',
      inputTokens: 10,
      cachedInputTokens: 0,
      outputTokens: 5,
      reasoningTokens: 0,
      images: 0,
      seconds: 0,
      characters: 0,
      estimated: false,
      ending: 'complete',
      startedAt: new Date(),
      durationMs: 10,
      firstByteMs: 2,
      ...more,
    });

    async function start(prefix: string, written?: RecentUsage, isCharged = false) {
      const { usage, counters, periods, keyTotals, accounts, ledger } = createAccountingModels(connection, prefix);
      const credits = new CreditService({
        accounts,
        ledger,
        publish: async () => {},
        writeAccount: createWriteAccount((fn) => connection.transaction(fn)),
        // a micro-credit for each token
        options: { prices: { '*': { input: 1, output: 1 } } },
        logger,
      });
      await buildIndexes(connection, usage, counters, periods, keyTotals, accounts, ledger);
      const service = new UsageService({ usage, logger, longestCall: 1_000, onWritten: (all) => written?.add(all) });
      const count = createCount({
        usage,
        counters,
        periods,
        keyTotals,
        transaction: (fn) => connection.transaction(fn),
        publish: async () => {},
        ...(isCharged && { credits }),
        quotas: undefined,
        logger,
        batchSize: 100,
        ...(written && { recentUsage: written }),
      });
      const requestsOf = async (userId: string) =>
        (await periods.find({ userId, period: 'daily' }).lean()).reduce((sum, { requests }) => sum + requests, 0);
      const spentOf = async (userId: string) => 0 - ((await accounts.findById(userId).lean())?.balance ?? 0);
      return { usage, counters, accounts, service, count, requestsOf, spentOf };
    }

    it('a usage record', async () => {
      const { usage, service } = await start('records_');
      const poison = record({ userId: huge });
      for (const one of [record(), poison, record()]) service.opened(one);
      await service.close();
      expect(await usage.countDocuments()).to.equal(2);
      expectLoggedOnce();
      expect(logged[0]).to.deep.include({ count: 1, reason: 'RangeError ERR_OUT_OF_RANGE', id: poison.id });

      for (const one of [record(), poison, record()]) service.closed(one);
      await service.close();
      expect(await usage.countDocuments({ counted: false })).to.equal(2);
    });

    it("a call of a model with a name of 17 MB, which is recorded by the name's beginning and counted", async () => {
      const { usage, service, count, requestsOf } = await start('names_');
      const attack = record({ userId: 'usr_attacker', model: huge });
      service.opened(attack);
      service.closed(attack);
      service.closed(record({ userId: 'usr_victim' }));
      await service.close();
      expect(await count()).to.equal(2);
      expect(await usage.findById(attack.id).lean()).to.deep.include({ model: 'x'.repeat(256), counted: true });
      expect([await requestsOf('usr_attacker'), await requestsOf('usr_victim')]).to.deep.equal([1, 1]);
      expect(logged).to.deep.equal([]);
    });

    const poisons: [string, object][] = [
      ['whose amount is no number', { inputTokens: 'many' }],
      ['whose amount is not finite', { outputTokens: Number.NaN }],
      ['whose moment is none', { startedAt: 'yesterday' }],
      ['whose model is no text', { model: { name: 'm' } }],
      ['whose account takes more than a document may hold', { userId: 'x'.repeat(15 * 1_048_576) }],
    ];
    for (const [i, [name, poison]] of poisons.entries()) {
      it(`a stored usage record ${name}: those behind it are counted, in this process and the next`, async () => {
        const { usage, service, count, requestsOf } = await start(`stored${i}_`);
        const records = [record(), record(), record()];
        for (const one of records) service.closed(one);
        await service.close();
        await usage.collection.updateOne({ _id: records[1]?.id as never }, { $set: poison });
        await count();
        expect(await requestsOf('usr_1')).to.equal(2);
        expectLoggedOnce();
        const stored = await usage.collection.findOne(
          { _id: records[1]?.id as never },
          { projection: { uncountable: 1, counted: 1 } },
        );
        expect(stored).to.deep.equal({ _id: records[1]?.id, uncountable: true });
        expect(await usage.countDocuments({ counted: true })).to.equal(2);
      });
    }

    /** What keeps the record of an account from being written. */
    type Break = (running: Awaited<ReturnType<typeof start>>, id: string) => Promise<unknown>;
    const breaks: [string, Break][] = [
      [
        'record is malformed',
        ({ usage }, id) => usage.collection.updateOne({ _id: id as never }, { $set: { inputTokens: 'many' } }),
      ],
      [
        'balance is broken',
        ({ accounts }) => accounts.collection.insertOne({ _id: 'usr_attacker', balance: 'none' } as never),
      ],
      [
        'counter is broken',
        ({ counters }) => {
          const day = new Date().toISOString().slice(0, 10);
          const _id = JSON.stringify(['usr_attacker', day, 'm', null]);
          return counters.collection.insertOne({ _id, requests: 'none' } as never);
        },
      ],
    ];
    for (const [i, [name, breakIt]] of breaks.entries()) {
      it(`a record of an account whose ${name}: the credits of the others are charged, each call once`, async () => {
        const written = new RecentUsage();
        // what this process has in its memory is not malformed by what is in the database
        if (i > 0) written.open();
        const running = await start(`credits${i}_`, written, true);
        const { service, count, spentOf, usage } = running;
        const attack = record({ userId: 'usr_attacker' });
        for (const one of [record({ userId: 'usr_1' }), attack, record({ userId: 'usr_2' }), record()]) {
          service.closed(one);
        }
        await service.close();
        await breakIt(running, attack.id);
        await count();
        await count();
        expect([await spentOf('usr_1'), await spentOf('usr_2')]).to.deep.equal([30, 15]);
        expect(await usage.countDocuments({ counted: true })).to.equal(3);
        expect(await usage.countDocuments({ uncountable: true })).to.equal(1);
        expectLoggedOnce();
      });
    }

    it('a record that this process has written, and whose counter is broken', async () => {
      const written = new RecentUsage();
      written.open();
      const { counters, service, count, requestsOf } = await start('own_', written);
      const day = new Date().toISOString().slice(0, 10);
      const _id = JSON.stringify(['usr_broken', day, 'm', null]);
      await counters.collection.insertOne({ _id, requests: 'none' } as never);
      for (const userId of ['usr_1', 'usr_broken', 'usr_2']) service.closed(record({ userId }));
      await service.close();
      await count();
      expect([await requestsOf('usr_1'), await requestsOf('usr_2'), await requestsOf('usr_broken')]).to.deep.equal([
        1, 1, 0,
      ]);
      expectLoggedOnce();
    });
  });

  it('the attempts of a webhook in the statistics', async () => {
    const tallies = createTallyModel(connection, 'gateway_');
    const healths = createHealthModel(connection, 'gateway_');
    const recorder = createRecorder({
      tallies,
      healths,
      interval: 60_000,
      onWritten: async () => {},
      onFailures: async () => {},
      logger,
    });
    const at = new Date();
    const broken = `wh_broken:${new Date(Math.floor(at.getTime() / 3_600_000) * 3_600_000).toISOString()}`;
    await tallies.collection.insertOne({ _id: broken, succeeded: 'none' } as never);
    for (const webhookId of ['wh_1', huge, 'wh_broken', 'wh_2', 'wh_1']) {
      recorder.record({ webhookId, deliveryId: 'dlv_1', at, durationMs: 5 });
    }
    await recorder.close();
    const counted = await tallies
      .find({ _id: { $regex: /^wh_[12]:/ } })
      .sort({ _id: 1 })
      .lean();
    expect(counted.map(({ succeeded }) => succeeded)).to.deep.equal([2, 1]);
    expect(await healths.countDocuments()).to.equal(3);
    expectLoggedOnce();
  });

  it('a refused call, and a window of refused calls that is published', async () => {
    const { exceeded } = createAccountingModels(connection, 'gateway_');
    await exceeded.createIndexes();
    const refusals = new RefusedCalls({
      exceeded: durableCollection(exceeded),
      owner: 'wrk_1',
      window: 1_000,
      flushInterval: 60_000,
      logger,
    });
    const at = Date.now();
    for (const userId of ['usr_1', huge, 'usr_2']) refusals.add({ userId, apiKeyId: null, limit: 1, count: 3, at });
    await refusals.flush();
    expect((await exceeded.find().lean()).map(({ userId }) => userId)).to.have.members(['usr_1', 'usr_2']);
    expectLoggedOnce();

    logged = [];
    await exceeded.collection.updateMany({}, { $set: { windowStart: new Date(0), windowEnd: new Date(1_000) } });
    await exceeded.collection.updateOne({ userId: 'usr_1' }, { $set: { windowStart: 'then', windowEnd: new Date(0) } });
    const published: unknown[] = [];
    const publish = async ({ userId }: { userId: string }) => published.push(userId);
    await createClosing({
      exceeded: durableCollection(exceeded),
      publish,
      grace: 0,
      logger,
    })();
    expect(published).to.deep.equal(['usr_2']);
    expectLoggedOnce();
  });

  it('a rate that processes share', async () => {
    const { rates } = createAccountingModels(connection, 'gateway_');
    const tallies = new MinuteCounters();
    const sharing = new Sharing({
      rates: durableCollection(rates),
      counters: tallies,
      owner: 'wrk_1',
      interval: 60_000,
      logger,
    });
    const now = Date.now();
    for (const subject of ['user:usr_1', huge, 'user:usr_2']) tallies.of(subject, now).requests += 1;
    await sharing.exchange();
    expect(await rates.countDocuments()).to.equal(2);
    expectLoggedOnce();
  });

  it('the last use of a key', async () => {
    const keys = createKeyModel(connection, 'gateway_');
    await keys.collection.insertMany([{ _id: 'key_1' }, { _id: 'key_2' }] as never[]);
    const failures: unknown[] = [];
    const lastUsed = createLastUsed({
      write: (ids) => markUsed(keys, ids),
      onFailure: (error) => failures.push(error),
    });
    for (const id of ['key_1', huge, 'key_2']) lastUsed.note(id);
    await lastUsed.close();
    expect(await keys.collection.countDocuments({ lastUsedAt: { $type: 'date' } })).to.equal(2);
    expect(failures).to.have.length(1);
  });
});
