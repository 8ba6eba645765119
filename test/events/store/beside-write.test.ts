import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import type { ModelGateway, WebhookPatch } from '../../../src/index.ts';
import { startReceiver, type TestReceiver } from '../../deliveries/receiver.ts';
import { watchedDatabase } from '../../support/commands.ts';
import { createGateway, newSecretKey } from '../../support/gateway.ts';
import { uriOf } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';
import { lookUps, payment, publishBeside, rejection } from '../harness.ts';

interface StoredEvent {
  _id: string;
  targets: string[];
  skipped: string[];
  lookupElection?: string;
}

const { userId, type } = payment;

describe('A publication by a process that has lately found the subscribers', () => {
  const appName = `beside-${process.pid}`;
  const secretKeys = [newSecretKey()];
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  let ofOthers: Connection;
  /** Makes deliveries. */
  let gateway: ModelGateway;
  /** As another process. */
  let elsewhere: ModelGateway;
  let receiver: TestReceiver;
  /** The webhook that it has found. */
  let found: string;

  beforeEach(async () => {
    database = await watchedDatabase({ appName });
    ofOthers = await mongoose.createConnection(uriOf(database.connection.name)).asPromise();
    receiver = await startReceiver();
    const deliveries = { sweepInterval: 50 };
    gateway = await createGateway({ mongo: database.connection, secretKeys, deliveries });
    elsewhere = await createGateway({ mongo: ofOthers, secretKeys, deliveries });
    await gateway.start();
    found = await create('found');
  });
  afterEach(async () => {
    await failing('off');
    await receiver.stop();
    await Promise.all([gateway.close(), elsewhere.close()]);
    await ofOthers.close();
    await database.drop();
  });

  const events = () => ofOthers.collection<StoredEvent>('gateway_events');
  const event = (_id: string) => events().findOne({ _id });
  const deliveriesOf = (eventId: string) => ofOthers.collection('gateway_deliveries').find({ eventId }).toArray();
  const namesOf = (collection: string) => database.commandsTo(collection).map(({ name }) => name);
  const confirmedLookUps = () =>
    database.commandsTo('gateway_webhooks').filter(({ command }) => JSON.stringify(command).includes('linearizable'));
  /** The events as they were first written. */
  const written = () =>
    database
      .commandsTo('gateway_events')
      .filter(({ name }) => name === 'insert')
      .flatMap(({ command }) => command.documents as StoredEvent[]);

  async function create(path: string, by = elsewhere, filters?: Record<string, string[]>): Promise<string> {
    const webhook = { url: `${receiver.url}/${path}`, events: [type], secret: 'a secret of the receiver' };
    return (await by.webhooks.create(userId, { ...webhook, ...(filters && { filters }) })).id;
  }
  const change = (patch: WebhookPatch) => elsewhere.webhooks.update(userId, found, patch);

  const untilNo = (filter: object) => until(async () => (await events().countDocuments(filter)) === 0);
  const allFannedOut = () => untilNo({ fanOut: 'pending' });

  /** Publishes, so that the process knows who is subscribed; nothing of that is left to be done then. */
  async function remember(): Promise<void> {
    await gateway.publish(payment);
    await allFannedOut();
    const deliveries = ofOthers.collection('gateway_deliveries');
    await until(async () => (await deliveries.countDocuments({ state: 'pending' })) === 0);
    receiver.received.length = 0;
    database.forget();
  }

  /** Has the process's reads of webhooks fail, or take long. */
  function failing(mode: 'alwaysOn' | 'off' | { times: number }, how: object = {}) {
    const namespace = `${database.connection.name}.gateway_webhooks`;
    const data = { appName, failCommands: ['find'], namespace, ...how };
    return ofOthers.getClient().db('admin').command({ configureFailPoint: 'failCommand', mode, data });
  }
  const slow = (blockTimeMS: number) => ({ blockConnection: true, blockTimeMS });

  it('sends one insert and one look-up beside it, and is acknowledged when both are answered', async () => {
    await remember();
    const order: string[] = [];
    const asked = new Map<number, string>();
    const client = database.connection.getClient();
    client.on('commandStarted', ({ commandName, command, requestId }) => {
      if (!['gateway_events', 'gateway_webhooks'].includes(command[commandName])) return;
      asked.set(requestId, commandName);
      order.push(`${commandName} is sent`);
    });
    client.on('commandSucceeded', ({ requestId }) => {
      if (asked.has(requestId)) order.push(`${asked.get(requestId)} is answered`);
    });
    await failing({ times: 1 }, slow(1_000));
    await gateway.publish(payment);
    order.push('acknowledged');

    expect(order[0]).to.equal('insert is sent');
    expect(order.slice(1, 3)).to.have.members(['find is sent', 'insert is answered']);
    expect(order.slice(3, 5)).to.deep.equal(['find is answered', 'acknowledged']);
    expect(written()[0]).to.deep.include({ targets: [found], lookupElection: 'none' });
    await receiver.count(1);
    await untilNo({ lookupElection: { $exists: true } });
  });

  it('costs one command more, the mark: its first attempt uses the webhook that was looked up', async function () {
    // what was read longer ago than 250 ms is read again, where a busy machine has stood still
    this.retries(3);
    await remember();
    await gateway.publish(payment);
    await receiver.count(1);
    await allFannedOut();

    expect(namesOf('gateway_webhooks')).to.deep.equal(['find']);
    expect(namesOf('gateway_events')).to.deep.equal(['insert', 'update']);
  });

  const everybody = { 'data.currency': [payment.data.currency] };
  const nobody = { 'data.currency': ['none'] };

  interface Change {
    /** What is before it. */
    readonly before?: () => Promise<unknown>;
    /** What another process does right before the publication; returns the webhook that it creates. */
    readonly make: () => Promise<unknown>;
    readonly sent: readonly ('found' | 'new')[];
    readonly skipped?: readonly 'found'[];
  }
  const changes: Readonly<Record<string, Change>> = {
    'has created one': { make: () => create('new'), sent: ['found', 'new'] },
    'has deleted one': { make: () => elsewhere.webhooks.remove(userId, found), sent: [] },
    'has paused one': { make: () => change({ active: false }), sent: [], skipped: ['found'] },
    'has resumed one': {
      before: () => change({ active: false }),
      make: () => change({ active: true }),
      sent: ['found'],
    },
    'has unsubscribed one': { make: () => change({ events: ['credits.low'] }), sent: [] },
    'has subscribed one': {
      before: () => change({ events: ['credits.low'] }),
      make: () => change({ events: [type] }),
      sent: ['found'],
    },
    'has changed the filters of one, which the event passes no more': {
      before: () => change({ filters: everybody }),
      make: () => change({ filters: nobody }),
      sent: [],
    },
    'has changed the filters of one, which the event passes now': {
      before: () => change({ filters: nobody }),
      make: () => change({ filters: everybody }),
      sent: ['found'],
    },
    'has replaced one': {
      async make() {
        await elsewhere.webhooks.remove(userId, found);
        return create('new');
      },
      sent: ['new'],
    },
  };
  for (const [what, { before, make, sent, skipped = [] }] of Object.entries(changes)) {
    it(`goes to those that there are when another process ${what}, and to nobody else`, async () => {
      await before?.();
      await remember();
      const made = await make();
      const { id } = await gateway.publish(payment);

      const ids = { found, new: String(made) };
      const targets = sent.map((name) => ids[name]);
      expect(await event(id)).to.deep.include({ targets, skipped: skipped.map((name) => ids[name]) });
      expect(written()[0], 'as it was written').to.include({ lookupElection: 'none' });
      expect(written()[0]?.targets).not.to.deep.equal(targets);
      await allFannedOut();
      await receiver.count(sent.length);
      expect((await deliveriesOf(id)).map(({ webhookId }) => webhookId)).to.have.members(targets);
      expect(receiver.received.map(({ path }) => path)).to.have.members(sent.map((name) => `/hook/${name}`));
      expect(confirmedLookUps()).to.have.length(0);
    });
  }

  it('looks first when the process itself has changed a webhook of the account', async () => {
    for (const changed of [
      () => create('new', gateway),
      () => gateway.webhooks.update(userId, found, { active: false }),
      () => gateway.webhooks.remove(userId, found),
    ]) {
      await remember();
      await changed();
      database.forget();
      await gateway.publish(payment);
      expect(written()[0]?.lookupElection).to.match(/^[0-9a-f]{24}$/);
    }
  });

  it('is unconfirmed when the look-up hangs, and its event is sent once, as soon as the lease is over', async () => {
    await remember();
    const added = await create('new');
    await failing({ times: 1 }, slow(6_000));
    const answered = new Promise<void>((resolve) => {
      database.connection.getClient().on('commandSucceeded', ({ commandName, duration }) => {
        if (commandName === 'find' && duration >= 6_000) resolve();
      });
    });
    const { code, details } = await rejection(gateway.publish(payment));
    expect(code).to.equal('publish_unconfirmed');
    const { eventId } = details as { eventId: string };

    expect(written().map(({ _id, targets }) => ({ _id, targets }))).to.deep.equal([{ _id: eventId, targets: [found] }]);
    await receiver.count(2);
    await answered;
    await allFannedOut();
    expect((await event(eventId))?.targets).to.have.members([found, added]);
    await until(async () => (await deliveriesOf(eventId)).every(({ state }) => state === 'delivered'));
    expect(receiver.received.map(({ path }) => path).sort()).to.deep.equal(['/hook/found', '/hook/new']);
  });

  for (const [what, how] of [
    ['fails', { errorCode: 13 }],
    ['loses its connection', { closeConnection: true }],
  ] as const) {
    it(`is unconfirmed when every look-up ${what}, and its event is sent as soon as the lease is over`, async () => {
      await remember();
      await failing('alwaysOn', how);
      const { code, details } = await rejection(gateway.publish(payment));
      await failing('off');

      expect(code).to.equal('publish_unconfirmed');
      const { eventId } = details as { eventId: string };
      expect(await event(eventId)).to.deep.include({ targets: [found], fanOut: 'pending', lookupElection: 'none' });
      await receiver.count(1);
      await allFannedOut();
      expect(await deliveriesOf(eventId)).to.have.length(1);
    });
  }

  it('asks a majority when its look-up fails', async () => {
    await remember();
    const added = await create('new');
    await failing({ times: 1 }, { errorCode: 13 });
    const { id } = await gateway.publish(payment);

    expect(await event(id)).to.deep.include({ targets: [found, added] });
    expect(confirmedLookUps()).to.have.length(1);
    await receiver.count(2);
  });

  it('completes an event that another process has taken meanwhile, and takes nobody away from it', async () => {
    await remember();
    const added = await create('new');
    await change({ active: false });
    await failing({ times: 1 }, slow(1_000));
    const publishing = gateway.publish(payment);
    await until(() => events().countDocuments({ fanOut: 'pending' }));
    await events().updateOne({ fanOut: 'pending' }, { $inc: { fanOutLeases: 1 } });
    const { id } = await publishing;

    expect(await event(id)).to.deep.include({ targets: [found, added], skipped: [], targetsAdded: true });
    await allFannedOut();
    const ended = async () => (await deliveriesOf(id)).filter(({ state }) => state !== 'pending');
    await until(async () => (await ended()).length === 2);
    const states = (await ended()).map(({ webhookId, state }) => [webhookId, state]);
    expect(states).to.have.deep.members([
      [found, 'canceled'],
      [added, 'delivered'],
    ]);
  });

  it('makes one event for one idempotency key, and refuses other content', async () => {
    await remember();
    const idempotencyKey = 'order-1';
    const first = await gateway.publish(payment, { idempotencyKey });
    expect(await gateway.publish(payment, { idempotencyKey })).to.deep.equal(first);
    const other = { ...payment, data: { ...payment.data, amount: 21 } };
    expect(await rejection(gateway.publish(other, { idempotencyKey }))).to.include({ code: 'idempotency_conflict' });

    expect(await events().countDocuments({ idempotencyKey })).to.equal(1);
    await allFannedOut();
    expect(await receiver.count(1)).to.have.length(1);
  });

  it('in a transaction reads the subscribers in it', async () => {
    await remember();
    const { id } = await gateway.transaction((session) => gateway.publish(payment, { session }));

    const lookUp = database.commandsTo('gateway_webhooks')[0]?.command;
    expect(lookUp).to.include({ autocommit: false });
    const stored = await event(id);
    expect(stored).to.deep.include({ targets: [found] });
    expect(stored).not.to.have.property('lookupElection');
    await receiver.count(1);
  });
});

describe('The look-up of subscribers beside the write of an event', () => {
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  before(async () => {
    database = await watchedDatabase();
  });
  after(() => database.drop());

  it('counts if the write was acknowledged in the same election, and gives its webhooks to the first attempts', async () => {
    expect(await publishBeside(database.connection)).to.deep.equal({
      targets: ['wh_read'],
      skipped: ['wh_paused'],
      begun: [{ targets: ['wh_read'], webhooks: lookUps.read }],
    });
  });

  for (const election of ['7fffffff0000000000000000', 'unknown']) {
    it(`is replaced by one that a majority confirms if the write was acknowledged in the election ${election}`, async () => {
      expect(await publishBeside(database.connection, election)).to.deep.equal({
        ...lookUps.confirmed,
        begun: [{ targets: ['wh_confirmed'], webhooks: undefined }],
      });
    });
  }
});
