import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import mongoose, { type Connection } from 'mongoose';
import { type EmbeddedMongo, startEmbeddedMongo } from '../../src/cli/mongo/embedded-mongo.ts';
import { createModelGateway, type ModelGateway, scopes } from '../../src/index.ts';
import { startReceiver, type TestReceiver } from '../deliveries/receiver.ts';
import { memoryFolder } from '../support/database/memory-folder.ts';
import { loopbackOptions, newSecretKey } from '../support/gateway.ts';
import { type Listening, listen } from '../support/listen.ts';
import { until } from '../support/until.ts';
import { json, ScriptedUpstream } from '../support/upstream.ts';
import { openBooks } from './books.ts';
import { Caller } from './caller.ts';
import { Publisher, type } from './publisher.ts';

/** Where a database has its data, and where its backup goes. */
interface Folders {
  readonly data: string;
  readonly copy: string;
}

/** A way to back a database up while gateways run, and to restore it. */
export interface BackupMethod {
  backUp(database: EmbeddedMongo, folders: Folders): Promise<void>;
  /** Removes what is in `data`, and starts a database with what was copied. */
  restore(folders: Folders, start: () => Promise<EmbeddedMongo>): Promise<EmbeddedMongo>;
}

/** What the database says of its deliveries. */
interface Stored {
  readonly _id: string;
  readonly eventId: string;
  readonly state: string;
}

/** How long so much load may take on a busy machine. Milliseconds. */
const loadTime = 90_000;
const secretKeys = [newSecretKey()];
const usage = { prompt_tokens: 6, completion_tokens: 2, total_tokens: 8 };

/** Says in tests what a backup by this method holds, and what a restore of it does. */
export function describeRestore(title: string, method: BackupMethod): void {
  describe(title, function () {
    this.timeout(240_000);
    let folders: Folders;
    let database: EmbeddedMongo;
    let gateway: ModelGateway;
    let server: Listening;
    let upstream: ScriptedUpstream;
    /** To the database after the restore. */
    let beside: Connection;
    const publisher = new Publisher();
    const caller = new Caller();
    /** Answers at once. */
    let quick: TestReceiver;
    /** Fails until the restore, so that retries are pending in the copy. */
    let failing: TestReceiver;
    /** Events whose publication was answered before the backup began. */
    let answered: ReadonlySet<string>;
    /** Events that are delivered to the quick receiver in the copy. */
    let delivered: ReadonlySet<string>;
    /** How many requests the quick receiver had got when gateways were started again. */
    let sentBefore = 0;

    const start = () => startEmbeddedMongo({ dataDir: folders.data });
    const sentTo = ({ received }: TestReceiver) => received.map(({ headers }) => String(headers['webhook-id']));
    const stored = () => beside.collection<Stored>('gateway_deliveries');
    const eventsThatAre = async (state: string) =>
      (await stored().find({ state }).toArray()).map(({ eventId }) => eventId);
    const nonePending = async () => {
      await until(async () => !(await beside.collection('gateway_events').findOne({ fanOut: 'pending' })), 60_000);
      await until(async () => !(await stored().findOne({ state: 'pending' })), 60_000);
    };
    const missing = (ids: Iterable<string>, receiver: TestReceiver) => {
      const got = new Set(sentTo(receiver));
      return [...ids].filter((id) => !got.has(id));
    };
    const sentAgain = () =>
      sentTo(quick)
        .slice(sentBefore)
        .filter((id) => delivered.has(id));

    async function openGateway(): Promise<ModelGateway> {
      const opened = await createModelGateway({
        ...loopbackOptions,
        mongo: database.uri,
        secretKeys,
        retryDelays: [8_000, 8_000, 8_000, 8_000, 8_000],
        upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
        credits: { prices: { '*': { input: 10, output: 20 } }, initialBalance: 1_000 },
      });
      await opened.start();
      return opened;
    }

    before(async () => {
      const folder = await mkdtemp(join((await memoryFolder()) ?? tmpdir(), 'express-model-gateway-backup-'));
      folders = { data: join(folder, 'data'), copy: join(folder, 'copy') };
      upstream = await ScriptedUpstream.start();
      upstream.script = json(200, { id: 'chatcmpl-1', object: 'chat.completion', model: 'm', choices: [{}], usage });
      [quick, failing] = [await startReceiver(), await startReceiver(500)];
      database = await start();
      gateway = await openGateway();
      server = await listen((req, res) => gateway.router(req, res));
      for (const { url } of [quick, failing]) await gateway.webhooks.create('usr_1', { url, events: [type] });
      const { key } = await gateway.keys.create({ userId: 'usr_1', scopes });
      caller.start(server.url, key);
      publisher.start(gateway);
    });
    after(async () => {
      await Promise.all([publisher.stop(), caller.stop()]);
      await gateway?.close();
      await beside?.close();
      await server?.close();
      await Promise.all([quick?.stop(), failing?.stop(), upstream?.close()]);
      await database?.stop();
      await rm(join(folders.data, '..'), { recursive: true, force: true });
    });

    it('is taken under load, and restored after the database is lost with its data', async () => {
      await until(() => publisher.answered.size > 200 && caller.answered > 100, loadTime);
      answered = new Set(publisher.answered.values());
      await method.backUp(database, folders);
      const atCopy = publisher.answered.size;
      await until(() => publisher.answered.size > atCopy + 200, loadTime);
      await Promise.all(database.nodes.map((node) => node.kill()));
      await Promise.all([publisher.stop(), caller.stop()]);
      await gateway.close();
      await database.stop();
      database = await method.restore(folders, start);
      beside = await mongoose.createConnection(database.uri).asPromise();
      delivered = new Set(await eventsThatAre('delivered'));
      expect(delivered.size, 'delivered in the copy').to.be.above(50);
      expect((await eventsThatAre('pending')).length, 'pending in the copy').to.be.above(50);
    });

    it('holds usage and credits of one moment: each balance is the sum of its ledger', async () => {
      expect(await openBooks(beside).expectEven('in the copy')).to.be.above(0);
    });

    it('holds all that was answered before; no delivered event is sent again, and the pending ones are sent', async () => {
      sentBefore = sentTo(quick).length;
      failing.answers(200);
      gateway = await openGateway();
      await nonePending();
      expect(sentAgain(), 'sent again').to.deep.equal([]);
      expect(missing(answered, quick), 'lost').to.deep.equal([]);
      expect(await eventsThatAre('failed'), 'given up').to.deep.equal([]);
      expect(missing(answered, failing), 'lost where attempts had failed').to.deep.equal([]);
    });

    it('has each of its calls counted and charged once, after the restore too', async () => {
      const books = openBooks(beside);
      const ended = await books.settled();
      expect(await books.expectEven('after the restore')).to.equal(ended);
    });

    it('keeps what it has as one event when publishers repeat all that they published', async () => {
      const keys = [...publisher.answered.keys(), ...publisher.refused];
      const again = new Map(
        await Promise.all(keys.map(async (key) => [key, await publisher.publish(gateway, key)] as const)),
      );
      await nonePending();
      for (const [key, id] of publisher.answered) if (answered.has(id)) expect(again.get(key), key).to.equal(id);
      expect(missing(again.values(), quick), 'lost after all').to.deep.equal([]);
      expect(sentAgain(), 'sent again').to.deep.equal([]);
    });
  });
}
