import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { createModelGateway, type ModelGateway } from '../../../src/index.ts';
import { startReceiver, type TestReceiver } from '../../deliveries/receiver.ts';
import { type Cluster, startCluster } from '../../faults/cluster/cluster.ts';
import { makeStale } from '../../support/database/stale-primary.ts';
import { loopbackOptions, newSecretKey } from '../../support/gateway.ts';
import { payment } from '../harness.ts';

describe('A webhook that was registered before an event was published', () => {
  const appName = `stale-subscribers-${process.pid}`;
  let cluster: Cluster;
  /** A publisher's, whose driver notices another primary only when a command fails. */
  let connection: Connection;
  let publisher: ModelGateway;
  let others: ModelGateway;
  let receiver: TestReceiver;
  let inserts: number;

  before(async function () {
    this.timeout(90_000);
    cluster = await startCluster();
    const late = {
      appName,
      serverMonitoringMode: 'poll',
      heartbeatFrequencyMS: 60_000,
      monitorCommands: true,
    } as const;
    connection = await mongoose.createConnection(cluster.uri, late).asPromise();
    connection.getClient().on('commandStarted', ({ commandName }) => {
      if (commandName === 'insert') inserts += 1;
    });
    const options = { ...loopbackOptions, secretKeys: [newSecretKey()] };
    others = await createModelGateway({ ...options, mongo: cluster.connection });
    publisher = await createModelGateway({ ...options, mongo: connection });
    await others.start();
    receiver = await startReceiver();
  });
  after(async () => {
    await publisher.close();
    await others.close();
    await connection.close();
    await receiver.stop();
    await cluster.stop();
  });
  beforeEach(() => {
    receiver.received.length = 0;
    inserts = 0;
  });

  const register = (userId: string) =>
    others.webhooks.create(userId, { url: receiver.url, events: [payment.type], secret: 'a secret of the receiver' });

  /**
   * Lets a primary that has been replaced answer the publisher's look-up, and the new one take the event.
   * @param change what the new one takes before, and the replaced one never hears of
   */
  async function publishAcrossElection(userId: string, change = () => register(userId)) {
    const stale = await makeStale(cluster);
    const admin = stale.connection.getClient().db('admin');
    const block = { appName, failCommands: ['insert'], blockConnection: true, blockTimeMS: 1_000 };
    await admin.command({ configureFailPoint: 'failCommand', mode: { times: 1 }, data: block });
    const { id: webhookId } = await change();
    inserts = 0;
    const publishing = publisher.publish({ ...payment, userId });
    while (inserts === 0) await new Promise(setImmediate);
    await stale.end();
    const { id } = await publishing;
    return { id, webhookId };
  }

  const storedEvent = (_id: string) =>
    cluster.connection
      .collection<{ _id: string; targets: string[]; skipped: string[] }>('gateway_events')
      .findOne({ _id });
  const targetsOf = async (id: string) => (await storedEvent(id))?.targets;

  it('gets the event although a replaced primary knew of no webhook', async () => {
    await publisher.publish({ ...payment, userId: 'usr_nobody' });
    const { id, webhookId } = await publishAcrossElection('usr_nobody');

    expect(await targetsOf(id)).to.deep.equal([webhookId]);
    await receiver.count(1);
  });

  it('gets the event although a replaced primary knew only of another webhook', async () => {
    const { id: first } = await register('usr_some');
    await publisher.publish({ ...payment, userId: 'usr_some' });
    await receiver.count(1);
    const { id, webhookId } = await publishAcrossElection('usr_some');

    expect(await targetsOf(id)).to.deep.equal([first, webhookId]);
    await receiver.count(3);
  });

  it('gets the event only if it matches its filters although a replaced primary knew of no webhook', async () => {
    await publisher.publish({ ...payment, userId: 'usr_filtered' });
    const filters = { 'data.currency': ['none'] };
    const { id, webhookId } = await publishAcrossElection('usr_filtered', async () => {
      const passing = await others.webhooks.create('usr_filtered', {
        url: receiver.url,
        events: [payment.type],
        filters: { 'data.currency': [payment.data.currency] },
      });
      await others.webhooks.create('usr_filtered', { url: receiver.url, events: [payment.type], filters });
      return passing;
    });

    expect(await targetsOf(id)).to.deep.equal([webhookId]);
    await receiver.count(1);
  });

  it('gets the event although a replaced primary had the webhook as inactive', async () => {
    const { id: first } = await register('usr_back');
    await others.webhooks.update('usr_back', first, { active: false });
    await publisher.publish({ ...payment, userId: 'usr_back' });
    const { id } = await publishAcrossElection('usr_back', () =>
      others.webhooks.update('usr_back', first, { active: true }),
    );

    expect(await storedEvent(id)).to.deep.include({ targets: [first], skipped: [] });
    await receiver.count(1);
  });

  const storedUnder = (idempotencyKey: string) =>
    cluster.connection.collection<{ _id: string }>('gateway_events').find({ idempotencyKey }).toArray();

  /** Until it is acknowledged. */
  async function repeated(idempotencyKey: string, userId: string): Promise<string> {
    for (;;) {
      try {
        return (await publisher.publish({ ...payment, userId }, { idempotencyKey })).id;
      } catch (error) {
        expect((error as { code: string }).code).to.be.oneOf(['publish_unconfirmed', 'database_unavailable']);
        // as a publisher that tries again
        await sleep(100);
      }
    }
  }

  for (const isKnown of [false, true]) {
    const what = isKnown ? 'only the new primary has it' : 'only the replaced primary has it';

    it(`gets an event only once when it is published again under its key and ${what}`, async () => {
      const userId = `usr_${isKnown}`;
      const key = `key_${isKnown}`;
      const { id: webhookId } = await register(userId);
      await publisher.publish({ ...payment, userId });
      await receiver.count(1);

      const stale = await makeStale(cluster);
      const first = isKnown ? await others.publish({ ...payment, userId }, { idempotencyKey: key }) : undefined;
      // the replaced primary takes it and steps down, or does not answer in time
      const tried = await publisher.publish({ ...payment, userId }, { idempotencyKey: key }).catch((error) => error);
      await stale.end();
      const id = await repeated(key, userId);

      if (first ?? tried.id) expect(id).to.equal(first?.id ?? tried.id);
      expect((await storedUnder(key)).map(({ _id }) => _id)).to.deep.equal([id]);
      expect(await targetsOf(id)).to.deep.equal([webhookId]);
      await receiver.count(2);
    });
  }
});
