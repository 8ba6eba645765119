import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFile, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { defaultCacheFolder } from '../../../src/cli/cache-folder.ts';
import { findMongod, mongodSources } from '../../../src/cli/mongo/binary.ts';
import { startEmbeddedMongo } from '../../../src/cli/mongo/embedded-mongo.ts';
import { startMongod } from '../../../src/cli/mongo/mongod.ts';
import { loadAccess } from '../../../src/cli/mongo/replica-set.ts';
import { listenOn } from '../../support/listen.ts';
import { forkCompiled } from '../../support/processes/compiled-script.ts';
import { isAlive } from '../../support/processes/is-alive.ts';
import { until } from '../../support/until.ts';
import { useEmbeddedMongo, withClient } from './embedded-scene.ts';

const ownerScript = fileURLToPath(new URL('./owner-process.ts', import.meta.url));

/** A process that runs an embedded database, so that it can be killed. */
async function startOwner(dataDir: string): Promise<{ child: ChildProcess; uri: string; pid: number }> {
  const child = await forkCompiled(ownerScript, { dataDir });
  const [started] = (await once(child, 'message')) as [{ uri: string; pid: number }];
  return { child, ...started };
}

/** A driver tries twice; an election takes longer. */
async function retried<T>(act: () => Promise<T>): Promise<T> {
  // tries again ten times a second
  for (const deadline = Date.now() + 45_000; ; await sleep(100)) {
    try {
      return await act();
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
  }
}

describe('the embedded MongoDB', () => {
  const scene = useEmbeddedMongo();
  const { start } = scene;

  it('supports transactions', async () => {
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
    const squatter = createServer((socket) => socket.destroy());
    await listenOn(squatter, port);
    const second = await start().finally(() => squatter.close());
    expect(second.nodes[0]?.port).not.to.equal(port);
    expect(await withClient(second.uri, (client) => client.db().collection('things').countDocuments())).to.equal(1);
  });

  it('writes its address to mongo.json, readable by its owner alone, and notes there that it stopped', async () => {
    const mongo = await start();
    const path = join(scene.dataDir, 'mongo.json');
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

  it('restarts when its mongod was killed', async () => {
    const lines: string[] = [];
    const mongo = await start({ log: (line) => lines.push(line) });
    const [node] = mongo.nodes;
    await withClient(mongo.uri, async (client) => {
      const things = client.db().collection('things');
      await things.insertOne({ a: 1 }, { writeConcern: { w: 'majority' } });
      process.kill(node?.pid as number, 'SIGKILL');
      await retried(() => things.updateOne({ a: 2 }, { $set: { b: 1 } }, { upsert: true }));
      expect(await things.countDocuments()).to.equal(2);
    });
    expect(lines.join('\n')).to.include('ended unexpectedly');
    // it takes writes before it is known to run
    await until(() => lines.includes('mongod runs again'));
  });

  it('removes temporary data at the end', async () => {
    const mongo = await startEmbeddedMongo({ temporary: true });
    const { dbPath } = (await withClient(mongo.uri, (client) => client.db('admin').command({ getCmdLineOpts: 1 })))
      .parsed.storage;
    await mongo.stop();
    expect(await stat(dbPath).catch((error) => error.code)).to.equal('ENOENT');
  });

  it('ends when its process is killed with SIGKILL', async () => {
    const { child, pid } = await startOwner(scene.dataDir);
    child.kill('SIGKILL');
    await until(() => !isAlive(pid), 20_000);
    expect(isAlive(pid)).to.equal(false);
  });

  it('starts again at once after its process was killed, with the data', async () => {
    const { child, uri } = await startOwner(scene.dataDir);
    await withClient(uri, (client) => client.db().collection('things').insertOne({ a: 1 }));
    child.kill('SIGKILL');
    await once(child, 'exit');
    const mongo = await start();
    expect(await withClient(mongo.uri, (client) => client.db().collection('things').countDocuments())).to.equal(1);
  });

  it('ends a mongod that was left running on its data', async () => {
    const binary = await findMongod(mongodSources(defaultCacheFolder()), () => {});
    const place = { dbPath: join(scene.dataDir, 'mongo', '0'), logPath: join(scene.dataDir, 'mongo-0.log') };
    const guardian = { watch() {}, forget() {}, release() {} };
    const access = await loadAccess(scene.dataDir);
    const left = await startMongod({ binary, ...place, replSet: 'gateway', access, testCommands: false, guardian });
    try {
      const mongo = await start();
      expect(isAlive(left.pid)).to.equal(false);
      expect(isAlive(mongo.nodes[0]?.pid as number)).to.equal(true);
    } finally {
      left.kill('SIGKILL');
    }
  });

  it('refuses a data folder in use by another living process, and names the process', async () => {
    const { child, pid } = await startOwner(scene.dataDir);
    const error = await start().catch((thrown: Error) => thrown);
    child.kill('SIGKILL');
    // it writes to the folder, which is removed next
    await until(() => !isAlive(pid), 20_000);
    expect(error).to.be.instanceOf(Error);
    expect((error as Error).message)
      .to.include(scene.dataDir)
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
      await retried(() => things.updateOne({ a: 2 }, { $set: { b: 1 } }, { upsert: true }));
      await node?.start();
      expect(await retried(() => things.countDocuments())).to.equal(2);
    });
  });
});
