import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { MongoClient } from 'mongodb';
import { loadAccess } from '../../../src/cli/mongo/access.ts';
import { findMongod, mongodSources } from '../../../src/cli/mongo/download/binary.ts';
import { defaultCacheFolder } from '../../../src/cli/mongo/download/cache-folder.ts';
import { type EmbeddedMongo, startEmbeddedMongo } from '../../../src/cli/mongo/embedded-mongo.ts';
import { startMongod } from '../../../src/cli/mongo/mongod.ts';
import { isAlive } from '../../../src/cli/mongo/record.ts';
import { memoryFolder } from '../../support/memory-folder.ts';

/** A process that runs an embedded database, so that it can be killed. */
const owner = `
import { startEmbeddedMongo } from './src/cli/mongo/embedded-mongo.ts';
const mongo = await startEmbeddedMongo({ dataDir: process.argv[1] });
console.log(JSON.stringify({ uri: mongo.uri, pid: mongo.nodes[0].pid }));
setInterval(() => {}, 1000);
`;

async function startOwner(dataDir: string): Promise<{ child: ChildProcess; uri: string; pid: number }> {
  const args = ['--import', 'tsx', '--input-type=module', '-e', owner, dataDir];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = (await once(createInterface(child.stdout as NodeJS.ReadableStream), 'line')) as [string];
  return { child, ...JSON.parse(line) };
}

async function gone(pid: number): Promise<boolean> {
  for (const deadline = Date.now() + 20_000; Date.now() < deadline; await sleep(50)) if (!isAlive(pid)) return true;
  return false;
}

async function withClient<T>(uri: string, use: (client: MongoClient) => Promise<T>): Promise<T> {
  const client = new MongoClient(uri);
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}

/** A driver tries twice; an election takes longer. */
async function eventually<T>(act: () => Promise<T>): Promise<T> {
  for (const deadline = Date.now() + 45_000; ; await sleep(100)) {
    try {
      return await act();
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
  }
}

describe('the embedded MongoDB', function () {
  this.timeout(180_000);
  let dataDir: string;
  const running: EmbeddedMongo[] = [];
  const start = async (options: Partial<Parameters<typeof startEmbeddedMongo>[0]> = {}): Promise<EmbeddedMongo> => {
    const mongo = await startEmbeddedMongo({ dataDir, ...options });
    running.push(mongo);
    return mongo;
  };

  beforeEach(async () => {
    dataDir = await mkdtemp(join((await memoryFolder()) ?? tmpdir(), 'embedded-mongo-test-'));
  });
  afterEach(async () => {
    await Promise.all(running.splice(0).map((mongo) => mongo.stop()));
    await rm(dataDir, { recursive: true, force: true });
  });

  it('takes transactions', async () => {
    const mongo = await start();
    await withClient(mongo.uri, async (client) => {
      await client.withSession((session) =>
        session.withTransaction(async () => {
          await client.db().collection('things').insertOne({ a: 1 }, { session });
        }),
      );
      expect(await client.db().collection('things').countDocuments()).to.equal(1);
    });
  });

  it('keeps data and port between starts', async () => {
    const first = await start();
    await withClient(first.uri, (client) => client.db().collection('things').insertOne({ a: 1 }));
    await first.stop();
    const second = await start();
    expect(second.uri).to.equal(first.uri);
    expect(await withClient(second.uri, (client) => client.db().collection('things').countDocuments())).to.equal(1);
  });

  it('moves to another port when its own is taken', async () => {
    const first = await start();
    await withClient(first.uri, (client) => client.db().collection('things').insertOne({ a: 1 }));
    await first.stop();
    const port = first.nodes[0]?.port as number;
    const squatter = createServer((socket) => socket.destroy()).listen(port, '127.0.0.1');
    await once(squatter, 'listening');
    const second = await start().finally(() => squatter.close());
    expect(second.nodes[0]?.port).not.to.equal(port);
    expect(await withClient(second.uri, (client) => client.db().collection('things').countDocuments())).to.equal(1);
  });

  it('tells where it is in mongo.json, for its owner alone, and there that it was stopped', async () => {
    const mongo = await start();
    const path = join(dataDir, 'mongo.json');
    expect(JSON.parse(await readFile(path, 'utf8'))).to.include({ uri: mongo.uri, pid: process.pid });
    expect((await stat(path)).mode & 0o777).to.equal(0o600);
    await mongo.stop();
    expect(JSON.parse(await readFile(path, 'utf8')).pid).to.equal(null);
  });

  it('listens on loopback only', async () => {
    const mongo = await start();
    const options = await withClient(mongo.uri, (client) => client.db('admin').command({ getCmdLineOpts: 1 }));
    expect(options.parsed.net.bindIp).to.equal('127.0.0.1');
  });

  it('leaves no mongod behind after stop', async () => {
    const mongo = await start();
    await mongo.stop();
    expect(isAlive(mongo.nodes[0]?.pid as number)).to.equal(false);
  });

  it('is there again when its mongod was killed', async () => {
    const lines: string[] = [];
    const mongo = await start({ log: (line) => lines.push(line) });
    const [node] = mongo.nodes;
    await withClient(mongo.uri, async (client) => {
      const things = client.db().collection('things');
      await things.insertOne({ a: 1 }, { writeConcern: { w: 'majority' } });
      process.kill(node?.pid as number, 'SIGKILL');
      await eventually(() => things.updateOne({ a: 2 }, { $set: { b: 1 } }, { upsert: true }));
      expect(await things.countDocuments()).to.equal(2);
    });
    expect(lines.join('\n')).to.include('ended unexpectedly').and.include('runs again');
  });

  it('removes temporary data at the end', async () => {
    const mongo = await startEmbeddedMongo({ temporary: true });
    const { dbPath } = (await withClient(mongo.uri, (client) => client.db('admin').command({ getCmdLineOpts: 1 })))
      .parsed.storage;
    await mongo.stop();
    expect(await stat(dbPath).catch((error) => error.code)).to.equal('ENOENT');
  });

  it('ends when its process is killed with SIGKILL', async () => {
    const { child, pid } = await startOwner(dataDir);
    child.kill('SIGKILL');
    expect(await gone(pid)).to.equal(true);
  });

  it('starts again at once after its process was killed, with the data', async () => {
    const { child, uri } = await startOwner(dataDir);
    await withClient(uri, (client) => client.db().collection('things').insertOne({ a: 1 }));
    child.kill('SIGKILL');
    await once(child, 'exit');
    const mongo = await start();
    expect(await withClient(mongo.uri, (client) => client.db().collection('things').countDocuments())).to.equal(1);
  });

  it('ends a mongod that was left behind on its data without a guardian', async () => {
    const binary = await findMongod(mongodSources(defaultCacheFolder()), () => {});
    const place = { dbPath: join(dataDir, 'mongo', '0'), logPath: join(dataDir, 'mongo-0.log') };
    const guardian = { watch() {}, forget() {}, release() {} };
    const access = await loadAccess(dataDir);
    const left = await startMongod({ binary, ...place, replSet: 'gateway', access, testCommands: false, guardian });
    try {
      const mongo = await start();
      expect(isAlive(left.pid)).to.equal(false);
      expect(isAlive(mongo.nodes[0]?.pid as number)).to.equal(true);
    } finally {
      left.kill('SIGKILL');
    }
  });

  it('refuses data that another living process runs on, and names the process', async () => {
    const { child } = await startOwner(dataDir);
    const error = await start().catch((thrown: Error) => thrown);
    child.kill('SIGKILL');
    expect(error).to.be.instanceOf(Error);
    expect((error as Error).message)
      .to.include(dataDir)
      .and.include(`process ${child.pid}`);
  });

  it('runs three members that survive the loss of their primary', async () => {
    const mongo = await start({ replicas: 3 });
    await withClient(mongo.uri, async (client) => {
      const things = client.db().collection('things', { writeConcern: { w: 'majority' } });
      await things.insertOne({ a: 1 });
      const { primary } = await client.db('admin').command({ hello: 1 });
      const node = mongo.nodes.find(({ host }) => host === primary);
      await node?.kill();
      await eventually(() => things.updateOne({ a: 2 }, { $set: { b: 1 } }, { upsert: true }));
      await node?.start();
      expect(await eventually(() => things.countDocuments())).to.equal(2);
    });
  });
});
