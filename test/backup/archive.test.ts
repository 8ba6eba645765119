import { expect } from 'chai';
import type { mongo } from 'mongoose';
import { startReceiver, type TestReceiver } from '../deliveries/receiver.ts';
import { codeBlocks } from '../documentation/documents.ts';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { freshDatabase } from '../support/mongo.ts';
import { until } from '../support/until.ts';
import { type } from './publisher.ts';

type Stored = mongo.Document & { readonly _id: string; readonly eventId?: string };

const day = 86_400_000;
const data = { payment_id: 'pay_1', amount: 1, currency: 'usd', credits_added: 1, user_id: 'usr_1' };

describe('The archive of docs/backup.md', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let archived: mongo.Db;
  let live: LiveGateway;
  let receiver: TestReceiver;

  before(async () => {
    database = await freshDatabase();
    archived = database.connection.getClient().db(`${database.connection.name}_archive`);
    receiver = await startReceiver();
    live = await startGateway({ mongo: database.connection, deliveries: { retentionDays: 30 } });
    await live.gateway.webhooks.create('usr_1', { url: receiver.url, events: [type] });
  });
  after(async () => {
    await live.close();
    await receiver.stop();
    await archived.dropDatabase();
    await database.drop();
  });

  const collection = (name: string) => database.connection.collection<Stored>(name);
  const idsIn = async (name: string) =>
    (await archived.collection<Stored>(name).find().toArray()).map(({ _id }) => _id);

  /** Runs what the page says, as `mongosh` does, in an archive of this test's own. */
  async function runArchive(): Promise<void> {
    const [block] = codeBlocks.filter(({ document, code }) => document === 'docs/backup.md' && code.includes('$merge'));
    const running: Promise<unknown>[] = [];
    const db = {
      getCollection: (name: string) => ({
        aggregate: (pipeline: object[]) => void running.push(collection(name).aggregate(pipeline).toArray()),
      }),
    };
    new Function('db', String(block?.code).replace('gateway_archive', archived.databaseName))(db);
    expect(running).to.have.length(2);
    await Promise.all(running);
  }

  /** Publishes an event, and makes it and its ended delivery so many days older. */
  async function publish(age: number): Promise<string> {
    const { id } = await live.gateway.publish({ type, userId: 'usr_1', data });
    const isEnded = async () =>
      (await collection('gateway_deliveries').findOne({ eventId: id }))?.state === 'delivered';
    await until(isEnded);
    await until(async () => (await collection('gateway_events').findOne({ _id: id }))?.fanOut === 'done');
    const older = (field: string) => ({ $set: { [field]: { $subtract: [`$${field}`, age * day] } } });
    await collection('gateway_events').updateOne({ _id: id }, [older('acceptedAt')]);
    await collection('gateway_deliveries').updateOne({ eventId: id }, [older('expiresAt')]);
    return id;
  }

  it('has the events and deliveries that are about to expire, as they were, and no younger ones', async () => {
    const [old] = [await publish(29), await publish(20)];
    const delivery = await collection('gateway_deliveries').findOne({ eventId: old });
    const event = await collection('gateway_events').findOne({ _id: old });
    await runArchive();
    expect(await archived.collection('gateway_deliveries').find().toArray()).to.deep.equal([delivery]);
    expect(await archived.collection('gateway_events').find().toArray()).to.deep.equal([event]);
  });

  it('keeps them when they have expired, and may be run again', async () => {
    const [first] = await idsIn('gateway_events');
    await collection('gateway_events').deleteOne({ _id: String(first) });
    await collection('gateway_deliveries').deleteMany({ eventId: String(first) });
    const next = await publish(29);
    await runArchive();
    await runArchive();
    expect(await idsIn('gateway_events')).to.have.members([first, next]);
    expect(await idsIn('gateway_deliveries')).to.have.length(2);
    for (const name of ['gateway_events', 'gateway_deliveries']) {
      expect((await archived.collection(name).indexes()).map((index) => index.name)).to.deep.equal(['_id_']);
    }
  });
});
