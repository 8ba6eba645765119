import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { defaultCacheFolder } from '../cache-folder.ts';
import { keepToOwner } from '../private-file.ts';
import { findMongod, mongodSources } from './binary.ts';
import { startGuardian } from './guardian.ts';
import { type MongodOptions, startMongod, startOnData } from './mongod.ts';
import { readRecord, writeRecord } from './record.ts';
import { bringUpReplicaSet, loadAccess, replicaSetUri } from './replica-set.ts';

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

/**
 * Runs a MongoDB replica set on 127.0.0.1 for this process, downloading mongod where the machine has none.
 * `MongoMemoryReplSet` of mongodb-memory-server-core, which finds the binary, cannot run it: it starts without access control to make its
 * user, at every start, so that every user of the machine could read the data meanwhile; it does not wait for a mongod that a killed process
 * has left on the data; its guard is a script beside its own file, which a bundle has not; and it starts none again that has ended.
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
      const place = { dbPath: join(dataDir, 'mongo', String(i)), logPath: join(dataDir, `mongo-${i}.log`) };
      const nodeOptions = { ...place, binary, replSet, access, testCommands, guardian, log, preferredPort: ports[i] };
      nodes.push(await startNode(nodeOptions, dataDir));
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

async function dataFolder({ dataDir, temporary }: EmbeddedMongoOptions): Promise<string> {
  if (temporary) return mkdtemp(join(dataDir ?? tmpdir(), 'express-model-gateway-'));
  if (!dataDir) throw new TypeError('startEmbeddedMongo needs dataDir, or temporary: true');
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  await keepToOwner(dataDir);
  return resolve(dataDir);
}

/** One member of the replica set. */
export type MongoNode = Awaited<ReturnType<typeof startNode>>;

type NodeOptions = MongodOptions & { readonly log: (line: string) => void };

/** Milliseconds. */
const stopTimeout = 15_000;
/** How often it is started again; more would be a fault that a restart does not repair. */
const maxRestarts = 5;

/** Starts a member on its data, and starts it again when it ends without having been asked to: for example because memory ran out. */
async function startNode(options: NodeOptions, dataDir: string) {
  let mongod = await startOnData(options, dataDir);
  const { port } = mongod;
  /** Whether its end would be unexpected. */
  let shouldRun = true;
  let restarts = 0;
  let restarting: Promise<void> | undefined;

  async function startAgain(): Promise<void> {
    mongod = await startMongod({ ...options, preferredPort: port });
    void watch();
  }

  async function recover(): Promise<void> {
    options.log(`mongod ended unexpectedly; its log is ${options.logPath}`);
    restarts += 1;
    if (restarts > maxRestarts) return options.log('It did so too often and is left down');
    try {
      await startAgain();
      options.log('mongod runs again');
    } catch (error) {
      options.log(`mongod did not start again: ${(error as Error).message}`);
    }
  }

  async function watch(): Promise<void> {
    await mongod.ended;
    if (shouldRun) restarting = recover();
  }

  void watch();
  return {
    host: `127.0.0.1:${port}`,
    port,
    /** Of the mongod that runs now, or ran last. */
    get pid(): number {
      return mongod.pid;
    },
    /** Ends it with SIGKILL and leaves it down, for tests of what others do meanwhile. */
    async kill(): Promise<void> {
      shouldRun = false;
      mongod.kill('SIGKILL');
      await mongod.ended;
    },
    /** Brings it back after `kill`, on the same data and port. */
    async start(): Promise<void> {
      shouldRun = true;
      await startAgain();
    },
    /** Ends it in order, by force after 15 s. */
    async stop(): Promise<void> {
      shouldRun = false;
      await restarting;
      mongod.kill('SIGTERM');
      const forced = setTimeout(() => mongod.kill('SIGKILL'), stopTimeout);
      await mongod.ended;
      clearTimeout(forced);
    },
  };
}
