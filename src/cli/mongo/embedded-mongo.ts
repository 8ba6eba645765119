import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { keepToOwner } from '../private-file.ts';
import { loadAccess } from './access.ts';
import { findMongod, mongodSources } from './download/binary.ts';
import { defaultCacheFolder } from './download/cache-folder.ts';
import { startGuardian } from './guardian.ts';
import { type MongoNode, startNode } from './node.ts';
import { readRecord, writeRecord } from './record.ts';
import { bringUpReplicaSet, replicaSetUri } from './replica-set.ts';

/** How {@link startEmbeddedMongo} runs its database. */
export interface EmbeddedMongoOptions {
  /** The folder that keeps the data; made if it is not there. Needed unless `temporary`, which is in it or in the system's. */
  readonly dataDir?: string | undefined;
  /** Data in a temporary folder that is removed at the end. @default false */
  readonly temporary?: boolean;
  /** Given a line where something takes long or ends unexpectedly. @default nothing is said */
  readonly log?: (line: string) => void;
  /** Members of the replica set. @default 1 */
  readonly replicas?: number;
  /** Where a downloaded mongod is kept. @default a folder in the user's caches */
  readonly cacheDir?: string;
  /** Whether failpoints may be set, for tests. @default false */
  readonly testCommands?: boolean;
  /** The address of a member for clients and other members, for tests that put a network in front of it. @default its own */
  readonly addressOf?: (member: number, port: number) => Promise<string>;
}

/** A running database that ends with this process, however it ends. */
export interface EmbeddedMongo {
  readonly uri: string;
  readonly nodes: readonly MongoNode[];
  /** Ends every member in order, by force after 15 s. Doing it twice does nothing. */
  stop(): Promise<void>;
}

const replSet = 'gateway';

async function dataFolder({ dataDir, temporary }: EmbeddedMongoOptions): Promise<string> {
  if (temporary) return mkdtemp(join(dataDir ?? tmpdir(), 'express-model-gateway-'));
  if (!dataDir) throw new TypeError('startEmbeddedMongo needs dataDir, or temporary: true');
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  await keepToOwner(dataDir);
  return resolve(dataDir);
}

/**
 * Runs a MongoDB replica set on 127.0.0.1 for this process, downloading mongod where the machine has none.
 * @throws Error when no mongod is available, with what the user can do; when another process uses `dataDir`
 */
export async function startEmbeddedMongo(options: EmbeddedMongoOptions): Promise<EmbeddedMongo> {
  const { temporary = false, log = () => {}, replicas = 1, testCommands = false } = options;
  const binary = await findMongod(mongodSources(options.cacheDir ?? defaultCacheFolder()), log);
  const dataDir = await dataFolder(options);
  const access = await loadAccess(dataDir);
  const ports = (await readRecord(dataDir))?.ports ?? [];
  const guardian = startGuardian(temporary ? dataDir : undefined);
  const nodes: MongoNode[] = [];

  async function stop(): Promise<void> {
    await Promise.all(nodes.map((node) => node.stop()));
    guardian.release();
    if (temporary) await rm(dataDir, { recursive: true, force: true });
  }

  try {
    for (let i = 0; i < replicas; i += 1) {
      const common = { binary, replSet, access, testCommands, guardian, log, preferredPort: ports[i] };
      const place = { dbPath: join(dataDir, 'mongo', String(i)), logPath: join(dataDir, `mongo-${i}.log`) };
      nodes.push(await startNode({ ...common, ...place }, dataDir));
    }
    const { addressOf = async (member) => nodes[member]?.host ?? '' } = options;
    const hosts = await Promise.all(nodes.map(({ port }, member) => addressOf(member, port)));
    const set = { name: replSet, hosts, access };
    await bringUpReplicaSet(set);
    const record = { uri: replicaSetUri(set), ports: nodes.map((node) => node.port) };
    await writeRecord(dataDir, { ...record, pid: process.pid });
    return {
      uri: record.uri,
      nodes,
      async stop() {
        await stop();
        if (!temporary) await writeRecord(dataDir, { ...record, pid: null });
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}
