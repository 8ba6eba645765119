import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { type Document, MongoClient } from 'mongodb';
import { defaultCacheFolder } from '../../../src/cli/cache-folder.ts';
import { findMongod, mongodSources } from '../../../src/cli/mongo/binary.ts';
import type { EmbeddedMongo } from '../../../src/cli/mongo/embedded-mongo.ts';
import { useEmbeddedMongo, withClient } from '../../cli/mongo/embedded-scene.ts';
import { freePorts } from '../../support/servers/free-ports.ts';
import { until } from '../../support/until.ts';

/** A mongod without users, as a data folder had one before there were any. */
async function startOpenMongod(dataDir: string): Promise<{ child: ChildProcess; uri: string; port: number }> {
  const binary = await findMongod(mongodSources(defaultCacheFolder()), () => {});
  const dbPath = join(dataDir, 'mongo', '0');
  await mkdir(dbPath, { recursive: true });
  const port = await freePorts(1);
  const place = ['--dbpath', dbPath, '--port', String(port), '--bind_ip', '127.0.0.1', '--nounixsocket'];
  const child = spawn(binary, [...place, '--replSet', 'gateway', '--oplogSize', '512'], { stdio: 'ignore' });
  const uri = `mongodb://127.0.0.1:${port}/gateway?directConnection=true`;
  await withClient(uri, async (client) => {
    const members = [{ _id: 0, host: `127.0.0.1:${port}` }];
    const { code } = await client
      .db('admin')
      .command({ replSetInitiate: { _id: 'gateway', members } })
      .catch((error) => error);
    expect(code ?? 23).to.equal(23);
    await until(async () => (await client.db('admin').command({ hello: 1 })).isWritablePrimary);
  });
  const record = { uri: `mongodb://127.0.0.1:${port}/gateway?replicaSet=gateway`, ports: [port], pid: null };
  await writeFile(join(dataDir, 'mongo.json'), JSON.stringify(record));
  return { child, uri, port };
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  child.kill(signal);
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}

/** Whether a connection to the port can be made. */
function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false));
    socket.on('connect', () => socket.destroy());
  });
}

describe('Another user of the machine that the embedded MongoDB runs on', function () {
  this.timeout(180_000);
  const scene = useEmbeddedMongo();
  const { start } = scene;
  const things = (uri: string) => withClient(uri, (client) => client.db().collection('things').countDocuments());
  const modeOf = async (name: string) => (await stat(join(scene.dataDir, name))).mode & 0o777;
  const without = ({ nodes }: EmbeddedMongo) => nodes.map(({ host }) => `mongodb://${host}/?directConnection=true`);

  const attempts: [what: string, try_: (client: MongoClient) => Promise<unknown>][] = [
    ['read', (client) => client.db('gateway').collection('gateway_api_keys').findOne()],
    ['insert an admin key', (client) => client.db('gateway').collection<Document>('gateway_api_keys').insertOne({})],
    ['list databases', (client) => client.db('admin').command({ listDatabases: 1 })],
    ['make a user', (client) => client.db('admin').command({ createUser: 'me', pwd: 'mine', roles: ['root'] })],
    ['reconfigure the set', (client) => client.db('admin').command({ replSetGetConfig: 1 })],
    ['shut it down', (client) => client.db('admin').command({ shutdown: 1, force: true })],
  ];

  async function refusals(uri: string): Promise<string[]> {
    return withClient(uri, (client) =>
      Promise.all(
        attempts.map(async ([what, attempt]) =>
          attempt(client).then(
            () => `may ${what}`,
            (e) => e.codeName,
          ),
        ),
      ),
    );
  }
  const allRefused = attempts.map(() => 'Unauthorized');

  it('may do nothing in it without the password', async () => {
    const mongo = await start();
    for (const uri of without(mongo)) expect(await refusals(uri)).to.deep.equal(allRefused);
    const guessed = new URL(mongo.uri);
    guessed.password = 'guessed';
    expect(await things(guessed.href).catch((error) => error.codeName)).to.equal('AuthenticationFailed');
  });

  it('may do nothing in a temporary one, nor in any member of several', async () => {
    const mongo = await start({ temporary: true, testCommands: true, replicas: 3 });
    for (const uri of without(mongo)) expect(await refusals(uri)).to.deep.equal(allRefused);
    expect(await things(mongo.uri)).to.equal(0);
  });

  it('may do nothing at any moment of the first start', async () => {
    let port = 0;
    const seen = new Set<string>();
    const probing = new AbortController();
    port = await freePorts(1);
    await writeFile(join(scene.dataDir, 'mongo.json'), JSON.stringify({ uri: '', ports: [port], pid: null }));
    const uri = `mongodb://127.0.0.1:${port}/?directConnection=true&serverSelectionTimeoutMS=2000`;
    async function probe(): Promise<void> {
      while (!probing.signal.aborted) {
        // the driver waits for half a second before it tries a port again that is not open yet
        while (!probing.signal.aborted && !(await isListening(port))) await sleep(5);
        const client = new MongoClient(uri);
        const make = { createUser: 'intruder', pwd: 'intruder', roles: ['root'] };
        seen.add(
          await client
            .db('admin')
            .command(make)
            .then(
              () => 'made',
              (error) => error.codeName ?? error.name,
            ),
        );
        await client.close();
      }
    }
    const probes = [probe(), probe()];
    const mongo = await start();
    probing.abort();
    await Promise.all(probes);
    expect(mongo.nodes[0]?.port).to.equal(port);
    expect([...seen])
      .to.include('Unauthorized')
      .and.not.include('made');
    const { users } = await withClient(mongo.uri, (client) => client.db('admin').command({ usersInfo: 1 }));
    expect(users.map(({ user }: { user: string }) => user)).to.deep.equal(['gateway']);
  });

  it('cannot read what gives the password', async () => {
    await chmod(scene.dataDir, 0o755);
    await start();
    expect(await modeOf('')).to.equal(0o700);
    for (const file of ['mongo.key', 'mongo.json', 'mongo-0.log']) expect(await modeOf(file), file).to.equal(0o600);
    expect(await modeOf('mongo')).to.equal(0o700);
  });

  it('finds the password in no process list and in no log', async () => {
    const lines: string[] = [];
    const mongo = await start({ log: (line) => lines.push(line) });
    const password = new URL(mongo.uri).password;
    const key = (await readFile(join(scene.dataDir, 'mongo.key'), 'utf8')).trim();
    expect(password).to.have.length.above(40);
    const { stdout } = await promisify(execFile)('ps', ['-ww', '-eo', 'args'], { maxBuffer: 64 * 1024 * 1024 });
    expect(stdout).to.include('--keyFile');
    for (const text of [stdout, lines.join('\n'), await readFile(join(scene.dataDir, 'mongo-0.log'), 'utf8')]) {
      expect(text.includes(password)).to.equal(false);
      expect(text.includes(key)).to.equal(false);
    }
  });

  describe('of a data folder from before there were users', () => {
    async function oldFolder(): Promise<void> {
      const { child, uri } = await startOpenMongod(scene.dataDir);
      await withClient(uri, (client) => client.db().collection<Document>('things').insertOne({ a: 1 }));
      await end(child, 'SIGTERM');
    }

    it('may do nothing once it is started, and the data is there', async () => {
      await oldFolder();
      const mongo = await start();
      for (const uri of without(mongo)) expect(await refusals(uri)).to.deep.equal(allRefused);
      expect(await things(mongo.uri)).to.equal(1);
    });

    it('may do nothing when an upgrade was cut off before it made the user', async () => {
      await oldFolder();
      await writeFile(join(scene.dataDir, 'mongo.key'), `${Buffer.alloc(756, 'k').toString('base64')}\n`, {
        mode: 0o600,
      });
      const mongo = await start();
      for (const uri of without(mongo)) expect(await refusals(uri)).to.deep.equal(allRefused);
      expect(await things(mongo.uri)).to.equal(1);
    });

    it('may do nothing when its mongod was left running', async () => {
      const { child, uri } = await startOpenMongod(scene.dataDir);
      try {
        await withClient(uri, (client) => client.db().collection<Document>('things').insertOne({ a: 1 }));
        const mongo = await start();
        for (const open of without(mongo)) expect(await refusals(open)).to.deep.equal(allRefused);
        expect(await things(mongo.uri)).to.equal(1);
      } finally {
        await end(child, 'SIGKILL');
      }
    });
  });

  it('cannot use the old password after the key file was lost: a new one is made, and the data is there', async () => {
    const first = await start();
    await withClient(first.uri, (client) => client.db().collection<Document>('things').insertOne({ a: 1 }));
    await first.stop();
    await rm(join(scene.dataDir, 'mongo.key'));
    const second = await start();
    expect(second.uri).not.to.equal(first.uri);
    expect(await things(second.uri)).to.equal(1);
    expect(await things(first.uri).catch((error) => error.codeName)).to.equal('AuthenticationFailed');
  });
});
