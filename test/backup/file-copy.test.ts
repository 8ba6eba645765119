import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { type EmbeddedMongo, startEmbeddedMongo } from '../../src/cli/mongo/embedded-mongo.ts';
import { createModelGateway, type ModelGateway } from '../../src/index.ts';
import { startReceiver, type TestReceiver } from '../deliveries/receiver.ts';
import { loopbackOptions, newSecretKey } from '../support/gateway.ts';
import { memoryFolder } from '../support/memory-folder.ts';
import { until } from '../support/until.ts';
import { Publisher, type } from './publisher.ts';

const secretKeys = [newSecretKey()];

/** What the database says of its deliveries. */
interface Stored {
  readonly _id: string;
  readonly eventId: string;
  readonly state: string;
}

describe('The files of the database, copied under load', function () {
  this.timeout(180_000);
  let folder: string;
  let database: EmbeddedMongo;
  let gateway: ModelGateway;
  /** To the database after the restore. */
  let beside: Connection;
  const publisher = new Publisher();
  /** Answers at once. */
  let quick: TestReceiver;
  /** Fails until the restore, so that retries are pending in the copy. */
  let failing: TestReceiver;

  const dataDir = () => join(folder, 'data');
  const sentTo = ({ received }: TestReceiver) => received.map(({ headers }) => String(headers['webhook-id']));

  async function openGateway(uri: string): Promise<ModelGateway> {
    const opened = await createModelGateway({
      ...loopbackOptions,
      mongo: uri,
      secretKeys,
      retryDelays: [8_000, 8_000, 8_000, 8_000, 8_000],
    });
    await opened.start();
    return opened;
  }

  /** Copies the files while the database takes no writes; resolves to what had been answered before. */
  async function backUp(): Promise<ReadonlySet<string>> {
    const client = await mongoose.createConnection(database.uri).asPromise();
    const admin = client.getClient().db('admin');
    try {
      const before = new Set(publisher.answered.values());
      await admin.command({ fsync: 1, lock: true });
      await cp(dataDir(), join(folder, 'copy'), { recursive: true, filter: (path) => !path.endsWith('.sock') });
      await admin.command({ fsyncUnlock: 1 });
      return before;
    } finally {
      await client.close();
    }
  }

  const stored = () => beside.collection<Stored>('gateway_deliveries');
  const eventsThatAre = async (state: string) =>
    (await stored().find({ state }).toArray()).map(({ eventId }) => eventId);
  const nonePending = async () => {
    await until(async () => !(await beside.collection('gateway_events').findOne({ fanOut: 'pending' })), 60_000);
    await until(async () => !(await stored().findOne({ state: 'pending' })), 60_000);
  };

  before(async () => {
    folder = await mkdtemp(join((await memoryFolder()) ?? tmpdir(), 'express-model-gateway-backup-'));
    database = await startEmbeddedMongo({ dataDir: dataDir() });
    gateway = await openGateway(database.uri);
    quick = await startReceiver();
    failing = await startReceiver(500);
    for (const { url } of [quick, failing]) await gateway.webhooks.create('usr_1', { url, events: [type] });
  });
  after(async () => {
    await publisher.stop();
    await gateway?.close();
    await beside?.close();
    await Promise.all([quick?.stop(), failing?.stop()]);
    await database?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  it('hold all that was answered before; a restore resends no delivered event and sends the pending ones', async () => {
    publisher.start(gateway);
    await until(() => publisher.answered.size > 200);
    const before = await backUp();
    const atCopy = publisher.answered.size;
    await until(() => publisher.answered.size > atCopy + 200);

    // all of it is lost in the midst of this
    await Promise.all(database.nodes.map((node) => node.kill()));
    await publisher.stop();
    await gateway.close();
    await database.stop();
    await rm(dataDir(), { recursive: true });
    await cp(join(folder, 'copy'), dataDir(), { recursive: true });
    database = await startEmbeddedMongo({ dataDir: dataDir() });

    beside = await mongoose.createConnection(database.uri).asPromise();
    const delivered = new Set(await eventsThatAre('delivered'));
    expect(delivered.size, 'delivered in the copy').to.be.above(50);
    expect((await eventsThatAre('pending')).length, 'pending in the copy').to.be.above(50);
    const sentBefore = sentTo(quick).length;
    failing.answers(200);
    gateway = await openGateway(database.uri);
    await nonePending();
    const missing = (ids: Iterable<string>, receiver: TestReceiver) => {
      const got = new Set(sentTo(receiver));
      return [...ids].filter((id) => !got.has(id));
    };
    const sentAgain = () =>
      sentTo(quick)
        .slice(sentBefore)
        .filter((id) => delivered.has(id));

    expect(sentAgain(), 'sent again').to.deep.equal([]);
    expect(missing(before, quick), 'lost').to.deep.equal([]);
    expect(await eventsThatAre('failed'), 'given up').to.deep.equal([]);
    expect(missing(before, failing), 'lost where attempts had failed').to.deep.equal([]);

    // publishers repeat what they published since the copy: what is in it stays one event, the rest is made anew
    const keys = [...publisher.answered.keys(), ...publisher.refused];
    const again = new Map(
      await Promise.all(keys.map(async (key) => [key, await publisher.publish(gateway, key)] as const)),
    );
    await nonePending();
    for (const [key, id] of publisher.answered) if (before.has(id)) expect(again.get(key), key).to.equal(id);
    expect(missing(again.values(), quick), 'lost after all').to.deep.equal([]);
    expect(sentAgain(), 'sent again').to.deep.equal([]);
  });
});
