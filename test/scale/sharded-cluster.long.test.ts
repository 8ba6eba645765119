import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import path from 'node:path';
import { expect } from 'chai';
import { type Document, MongoClient } from 'mongodb';
import mongoose from 'mongoose';
import { findMongod, mongodSources } from '../../src/cli/mongo/binary.ts';
import { createModels } from '../../src/gateway/collections.ts';
import { memoryFolder } from '../support/database/memory-folder.ts';
import { freePorts } from '../support/servers/free-ports.ts';
import { until } from '../support/until.ts';
import { shardedCollections } from './shard-keys.ts';

const majority = { writeConcern: { w: 'majority', wtimeout: 30_000 } };

/** A replica set of one node with a role in a cluster. */
interface Node {
  readonly host: string;
  readonly name: string;
  readonly client: MongoClient;
  stop(): Promise<void>;
}

async function startNode(binary: string, name: string, role: '--configsvr' | '--shardsvr'): Promise<Node> {
  const dbPath = await mkdtemp(path.join((await memoryFolder()) ?? tmpdir(), `${name}-`));
  const port = await freePorts(1);
  const host = `127.0.0.1:${port}`;
  const child: ChildProcess = spawn(
    binary,
    [role, '--replSet', name, '--dbpath', dbPath, '--port', String(port), '--bind_ip', '127.0.0.1'].concat([
      '--nounixsocket',
      '--quiet',
      '--oplogSize',
      '64',
      '--wiredTigerCacheSizeGB',
      '0.25',
    ]),
    { stdio: 'ignore' },
  );
  const client = await new MongoClient(`mongodb://${host}/?directConnection=true`).connect();
  const admin = client.db('admin');
  const config = { _id: name, configsvr: role === '--configsvr', members: [{ _id: 0, host }] };
  await admin.command({ replSetInitiate: config });
  await until(async () => (await admin.command({ hello: 1 })).isWritablePrimary, 30_000);
  return {
    host,
    name,
    client,
    async stop() {
      await client.close();
      child.kill('SIGKILL');
      await once(child, 'exit');
      await rm(dbPath, { recursive: true, force: true });
    },
  };
}

/**
 * The catalogue of a sharded cluster, asked as a mongos asks it: where no mongos is to be had, MongoDB itself still judges the
 * keys and places the chunks.
 */
describe('The collections of a gateway, in a cluster of two shards', function () {
  this.timeout(180_000);
  const nodes: Node[] = [];
  let databaseVersion: Document;
  let config: Node;
  let primary: Node;

  before(async () => {
    const cache = path.join(homedir(), '.cache', 'express-model-gateway');
    const binary = await findMongod(mongodSources(cache), () => {});
    for (const [name, role] of [
      ['config', '--configsvr'],
      ['one', '--shardsvr'],
      ['two', '--shardsvr'],
    ] as const) {
      nodes.push(await startNode(binary, name, role));
    }
    [config, primary] = nodes as [Node, Node, Node];
    const admin = config.client.db('admin');
    for (const { name, host } of nodes.slice(1)) {
      await admin.command({ _configsvrAddShard: `${name}/${host}`, name, ...majority });
    }
    const created = { _configsvrCreateDatabase: 'gateway', primaryShardId: 'one', ...majority };
    databaseVersion = (await admin.command(created)).databaseVersion;
    const uri = `mongodb://${primary.host}/gateway?directConnection=true`;
    const connection = await mongoose.createConnection(uri).asPromise();
    for (const model of Object.values(createModels(connection, 'gateway_'))) {
      await model.createCollection();
      await model.createIndexes();
    }
    await connection.close();
  });
  after(async () => {
    for (const node of nodes) await node.stop();
  });

  async function shard(collection: string, key: Document): Promise<void> {
    const database = primary.client.db('gateway');
    await database.collection(collection).createIndex(key as never);
    const command = { _shardsvrCreateCollection: collection, shardKey: key, unique: false, databaseVersion };
    await database.command({ ...command, ...majority });
  }

  it('accept their shard keys beside their unique indexes, and are on both shards at once if hashed', async () => {
    for (const { name, key } of shardedCollections) await shard(`gateway_${name}`, key);
    const catalogue = config.client.db('config');
    const sharded = await catalogue.collection('collections').find().toArray();
    for (const { name, key } of shardedCollections) {
      const entry = sharded.find(({ _id }) => String(_id) === `gateway.gateway_${name}`);
      expect(entry?.key, name).to.deep.equal(key);
      const shards = await catalogue.collection('chunks').distinct('shard', { uuid: entry?.uuid });
      const isHashed = Object.values(key).includes('hashed');
      expect(shards, name).to.have.length(isHashed ? 2 : 1);
    }
  });

  it('accept no other key where an index is unique by account', async () => {
    for (const name of ['webhooks', 'keys']) {
      const refused = await shard(`gateway_${name}`, { _id: 'hashed' }).catch((error: Error) => error.message);
      expect(refused, name).to.match(/Uniqueness can't be maintained unless shard key is a prefix/);
    }
  });
});
