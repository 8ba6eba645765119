import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import mongoose from 'mongoose';
import { startReceiver } from '../deliveries/receiver.ts';
import { payment } from '../events/harness.ts';
import { createGateway, newSecretKey } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { term } from './faults.ts';
import type { Row, Scene, Stage } from './harness.ts';

interface StoredEvent {
  _id: string;
  userId: string;
  targets: string[];
  skipped: string[];
}

/** Publishers whose drivers notice another primary only when a command fails, and a gateway that knows it. */
async function openPublishers({ uri, connection, stale, defer }: Scene) {
  const secretKeys = [newSecretKey()];
  const others = await createGateway({ mongo: connection, secretKeys });
  defer(others.close);
  await others.start();
  /** Where the event of each account was inserted first. */
  const insertedAt = new Map<string, string>();
  /** The accounts whose event was inserted before its look-up was answered. */
  const insertedFirst = new Set<string>();

  async function publisherNamed(appName: string) {
    const late = {
      appName,
      serverMonitoringMode: 'poll',
      heartbeatFrequencyMS: 60_000,
      monitorCommands: true,
    } as const;
    const its = await mongoose.createConnection(uri, late).asPromise();
    defer(() => its.close());
    its.getClient().on('commandStarted', ({ commandName, command, address }) => {
      if (commandName !== 'insert' || command.insert !== 'gateway_events') return;
      for (const { userId, lookupElection } of command.documents) {
        if (!insertedAt.has(userId)) insertedAt.set(userId, address);
        if (lookupElection === 'none') insertedFirst.add(userId);
      }
    });
    const publisher = await createGateway({ mongo: its, secretKeys });
    defer(publisher.close);
    return publisher;
  }

  const slow = `slow-publisher-${process.pid}`;
  const admin = stale.getClient().db('admin');
  const db = connection.getClient().db(connection.name);
  const { me } = await admin.command({ hello: 1 });
  return {
    others,
    /** A publisher of its own, so that no event waits for another one's insert. */
    publisher: () => publisherNamed('publisher'),
    /** Its events reach the replaced primary only when that, as nobody follows it any more, has stepped down. */
    slowPublisher: () => publisherNamed(slow),
    async slowDown() {
      const data = { appName: slow, failCommands: ['insert'], blockConnection: true, blockTimeMS: term - 500 };
      await admin.command({ configureFailPoint: 'failCommand', mode: 'alwaysOn', data });
    },
    insertedAt,
    insertedFirst,
    /** The replaced primary, as clients know it. */
    stalePort: new URL(`mongodb://${me}`).port,
    events: db.collection<StoredEvent & { idempotencyKey?: string }>('gateway_events'),
    deliveries: db.collection<{ eventId: string; webhookId: string }>('gateway_deliveries'),
    async receiver() {
      const receiver = await startReceiver();
      defer(receiver.stop);
      return receiver;
    },
  };
}

interface Account {
  readonly userId: string;
  /** Registers a webhook for what matches these filters. */
  register(filters?: Record<string, string[]>): Promise<string>;
  setActive(webhookId: string, active: boolean): Promise<unknown>;
  remove(webhookId: string): Promise<unknown>;
}

interface AcrossElection extends Pick<Row, 'subject' | 'written' | 'holds'> {
  /** What every member has; returns what `change` and `expected` may use. */
  before?(account: Account): Promise<string>;
  /** What the new primary takes, and the replaced one never hears of; returns the webhook. */
  change(account: Account, first: string): Promise<string>;
  targets(first: string, changed: string): string[];
  /** How many requests that makes, with those for the event before. */
  requests: number;
}

let accounts = 0;

async function accountOf(stage: Stage) {
  const at = await stage.scene(openPublishers);
  const receiver = await at.receiver();
  const userId = `usr_${++accounts}`;
  const { webhooks } = at.others;
  const account: Account = {
    userId,
    async register(filters) {
      const { id } = await webhooks.create(userId, {
        url: receiver.url,
        events: [payment.type],
        secret: 'a secret of the receiver',
        ...(filters && { filters }),
      });
      return id;
    },
    setActive: (id, active) => webhooks.update(userId, id, { active }),
    remove: (id) => webhooks.remove(userId, id),
  };
  return { ...at, receiver, userId, account };
}

/** An event that is published while a replaced primary answers the look-up of its webhooks, and that the new one takes. */
const acrossElection = ({ before, change, targets, requests, ...row }: AcrossElection): Row => ({
  fault: 'a replaced primary',
  ...row,
  async show(stage) {
    const { slowDown, insertedAt, stalePort, events, receiver, account, userId, ...at } = await accountOf(stage);
    const publisher = await at.slowPublisher();
    const first = (await before?.(account)) ?? '';
    await publisher.publish({ ...payment, userId });
    if (requests > 1) await receiver.count(1);
    insertedAt.delete(userId);
    await stage.fault();
    await slowDown();
    const changed = await change(account, first);
    const publishing = publisher.publish({ ...payment, userId });
    await until(() => insertedAt.has(userId));
    expect(insertedAt.get(userId), 'who was asked for its webhooks').to.match(new RegExp(`:${stalePort}$`));
    await stage.recovered();
    const { id } = await publishing;

    const stored = await events.findOne({ _id: id });
    expect(stored).to.deep.include({ targets: targets(first, changed), skipped: [] });
    await receiver.count(requests);
  },
});

/** The same where the publisher has just found the webhooks, at the replaced primary: it inserts the event with those, and looks beside that. */
const besideWrite = ({ before, change, targets, ...row }: Omit<AcrossElection, 'requests'>): Row => ({
  fault: 'a replaced primary',
  ...row,
  async show(stage) {
    const { slowDown, insertedAt, insertedFirst, stalePort, events, deliveries, account, userId, ...at } =
      await accountOf(stage);
    const publisher = await at.slowPublisher();
    await publisher.start();
    const first = (await before?.(account)) ?? '';
    await stage.fault();
    // the replaced primary answers its look-up, and cannot take it
    const earlier = publisher.publish({ ...payment, userId }).catch(() => {});
    await until(() => insertedAt.has(userId));
    insertedAt.delete(userId);
    await slowDown();
    const changed = await change(account, first);
    const publishing = publisher.publish({ ...payment, userId });
    await until(() => insertedAt.has(userId));
    expect(insertedAt.get(userId), 'who was asked for its webhooks').to.match(new RegExp(`:${stalePort}$`));
    expect(insertedFirst).to.include(userId);
    await stage.recovered();
    const { id } = await publishing;
    await earlier;

    const expected = targets(first, changed);
    expect(await events.findOne({ _id: id })).to.deep.include({ targets: expected, skipped: [] });
    await until(async () => (await events.countDocuments({ _id: id, fanOut: 'done' })) > 0);
    const made = await deliveries.find({ eventId: id }).toArray();
    expect(made.map(({ webhookId }) => webhookId)).to.have.members(expected);
  },
});

/** An event that is published again under its key when the replica set has recovered. */
const again = (isKnown: boolean): Row => ({
  fault: 'a replaced primary that takes a write',
  subject: 'an event that is published again under its key',
  written: isKnown ? 'known only to the new primary' : 'known only to the replaced primary',
  holds: 'stored and received once',
  async show(stage) {
    const { others, events, receiver, account, userId, ...at } = await accountOf(stage);
    const publisher = await at.publisher();
    const idempotencyKey = `key_${isKnown}`;
    const webhookId = await account.register();
    await publisher.publish({ ...payment, userId });
    await receiver.count(1);
    const publish = (from = publisher) => from.publish({ ...payment, userId }, { idempotencyKey });

    await stage.fault();
    const first = isKnown ? await publish(others) : undefined;
    // the replaced primary takes it and steps down, or does not answer in time
    const tried = await publish().catch((error) => error);
    await stage.recovered();

    /** Until it is acknowledged. */
    async function repeated(): Promise<string> {
      for (;;) {
        try {
          return (await publish()).id;
        } catch (error) {
          expect((error as { code: string }).code).to.be.oneOf(['publish_unconfirmed', 'database_unavailable']);
          // as a publisher that tries again
          await sleep(100);
        }
      }
    }
    const id = await repeated();
    if (first ?? tried.id) expect(id).to.equal(first?.id ?? tried.id);
    const stored = await events.find({ idempotencyKey }).toArray();
    expect(stored.map(({ _id, targets }) => ({ _id, targets }))).to.deep.equal([{ _id: id, targets: [webhookId] }]);
    await receiver.count(2);
  },
});

const currency = 'data.currency';

export const rows: readonly Row[] = [
  acrossElection({
    subject: 'an event of an account without webhooks',
    written: 'whose first one was registered through the new primary',
    holds: 'sent to it',
    change: ({ register }) => register(),
    targets: (_, changed) => [changed],
    requests: 1,
  }),

  acrossElection({
    subject: 'an event of an account with a webhook',
    written: 'whose second one was registered through the new primary',
    holds: 'sent to both',
    before: ({ register }) => register(),
    change: ({ register }) => register(),
    targets: (first, changed) => [first, changed],
    requests: 3,
  }),

  acrossElection({
    subject: 'an event of an account without webhooks',
    written: 'whose first two, with filters, were registered through the new primary',
    holds: 'sent only to the one whose filters it matches',
    async change({ register }) {
      const passing = await register({ [currency]: [payment.data.currency] });
      await register({ [currency]: ['none'] });
      return passing;
    },
    targets: (_, changed) => [changed],
    requests: 1,
  }),

  acrossElection({
    subject: 'an event of an account with an inactive webhook',
    written: 'which was made active through the new primary',
    holds: 'sent to it, and not skipped',
    async before({ register, setActive }) {
      const id = await register();
      await setActive(id, false);
      return id;
    },
    async change({ setActive }, first) {
      await setActive(first, true);
      return first;
    },
    targets: (first) => [first],
    requests: 1,
  }),

  besideWrite({
    subject: 'an event whose publisher has just found its webhook',
    written: 'after the new primary has taken a second one',
    holds: 'sent to both',
    before: ({ register }) => register(),
    change: ({ register }) => register(),
    targets: (first, changed) => [first, changed],
  }),

  besideWrite({
    subject: 'an event whose publisher has just found its webhook',
    written: 'after the new primary has deleted that',
    holds: 'sent to nobody',
    before: ({ register }) => register(),
    async change({ remove }, first) {
      await remove(first);
      return first;
    },
    targets: () => [],
  }),

  again(false),
  again(true),
];
