import os from 'node:os';
import mongoose, { type Connection, type Mongoose } from 'mongoose';
import { refuse } from '../../errors.ts';
import type { Logger, ResolvedOptions } from '../../options/options.ts';
import { databaseOf } from '../collection.ts';
import { openFailure, requireEscapedCredentials } from './open-failure.ts';

export interface Database {
  readonly connection: Connection;
  /** Closes the connection if the gateway opened it; leaves a host's own connection alone. */
  close(): Promise<void>;
}

/**
 * How the gateway's own connection notices that a server, or a connection to it, is dead. Milliseconds.
 *
 * - A silent server, with all connections to it, is given up after `connectTimeoutMS` and `heartbeatFrequencyMS` together.
 * - A connection that does not answer a command within `socketTimeoutMS` is closed, and the driver retries the command once.
 *   Others that died with it and were idle since have been closed after `maxIdleTimeMS`, which is shorter: the second try
 *   meets a new connection, or one that has answered meanwhile. A database that is slow loses nothing but that one connection.
 */
const connectionTimes = {
  serverSelectionTimeoutMS: 5_000,
  connectTimeoutMS: 3_000,
  socketTimeoutMS: 5_000,
  maxIdleTimeMS: 2_000,
  heartbeatFrequencyMS: 1_000,
} as const;

/** A host's own connection may wait this many times as long without a warning. */
const tolerance = 2;

/** The driver's defaults; without them, it does not retry a command whose connection has died. */
const retries = { retryReads: true, retryWrites: true } as const;

/** Warns about a host's own connection that would notice a dead database or connection too late. */
function checkOptions(connection: Connection, logger: Logger): void {
  const options = connection.getClient().options as unknown as Record<string, unknown>;
  // 0 is no limit
  const timeOf = (name: string) => Number(options[name]) || Number.POSITIVE_INFINITY;
  const slow = Object.entries(connectionTimes).filter(([name, time]) => timeOf(name) > time * tolerance);
  const off = Object.entries(retries).filter(([name]) => options[name] === false);
  const lacking = [...slow, ...off];
  if (lacking.length === 0) return;
  const advice = lacking.map(([name, value]) => `${name}: ${value}`).join(', ');
  logger.warn(
    `mongo: your connection notices late that the database or a connection to it is dead; open it with { ${advice} }`,
    { options: lacking.map(([name]) => name) },
  );
}

/** How long opening may take, elections included. Milliseconds. */
const openWithin = 10_000;

/** The times that the URI does not set itself. */
function timesFor(uri: string): Partial<typeof connectionTimes> {
  const inUri = new Set([...uri.matchAll(/[?&](\w+)=/g)].map(([, name]) => name?.toLowerCase()));
  return Object.fromEntries(Object.entries(connectionTimes).filter(([name]) => !inUri.has(name.toLowerCase())));
}

/** The module that a driver would `import()`, which Jest refuses without `--experimental-vm-modules`. Older drivers know no such option. */
function runtimeAdapters(): object {
  const adapters = { runtimeAdapters: { os } };
  try {
    new mongoose.mongo.MongoClient('mongodb://127.0.0.1', adapters);
    return adapters;
  } catch {
    return {};
  }
}

async function open(uri: string): Promise<Connection> {
  const deadline = performance.now() + openWithin;
  const options = { ...timesFor(uri), ...runtimeAdapters() };
  for (;;) {
    // of no mongoose that the host has: its `disconnect` would close it
    const connection = new mongoose.Mongoose().createConnection(uri, options);
    try {
      return await connection.asPromise();
    } catch (error) {
      await connection.close();
      const isOver = performance.now() > deadline;
      if (isOver || !(error instanceof mongoose.Error.MongooseServerSelectionError)) throw error;
    }
  }
}

/**
 * The schemas and ids of one major version do not work with the connections of another.
 * @throws GatewayError `invalid_options`
 */
function requireSameMongoose({ base }: Connection): void {
  const major = (version: string | undefined) => version?.split('.')[0];
  const theirs = (base as Mongoose | undefined)?.version;
  if (major(theirs) === major(mongoose.version)) return;
  const problem = `this connection is of mongoose ${theirs}, but express-model-gateway finds mongoose ${mongoose.version}`;
  const remedy = 'install one of them for both (npm ls mongoose shows who asks for which), or pass the URI';
  refuse('invalid_options', 'mongo', `${problem}; ${remedy}`);
}

/**
 * The host's connection, once it is open.
 * @throws GatewayError `invalid_options` when it is not being opened, cannot be opened, or is no connection of mongoose's
 */
async function whenOpen(mongo: Connection | Mongoose): Promise<Connection> {
  const connection = (mongo as Partial<Mongoose>).connection ?? (mongo as Connection);
  if (typeof connection?.asPromise !== 'function' || typeof connection.model !== 'function') {
    refuse('invalid_options', 'mongo', 'must be a MongoDB URI, a mongoose connection or mongoose itself');
  }
  requireSameMongoose(connection);
  const { connecting, connected } = mongoose.ConnectionStates;
  if (connection.readyState !== connecting && connection.readyState !== connected) {
    const problem = 'is not connected; call mongoose.connect(uri) before createModelGateway, or pass the URI';
    refuse('invalid_options', 'mongo', problem);
  }
  return connection.asPromise().catch((error) => {
    throw openFailure(error);
  });
}

/**
 * Opens a URI, or waits for a host's own connection to be ready.
 * @throws GatewayError `invalid_options` that says why the database cannot be opened, and what to do; nothing secret in the URI is in it
 */
export async function openDatabase(mongo: Connection | Mongoose | string, logger: Logger): Promise<Database> {
  if (typeof mongo !== 'string') {
    const connection = await whenOpen(mongo);
    checkOptions(connection, logger);
    return { connection, async close() {} };
  }
  requireEscapedCredentials(mongo);
  const connection = await open(mongo).catch((error) => {
    throw openFailure(error, mongo);
  });
  return { connection, close: () => connection.close() };
}

type Client = ReturnType<Connection['getClient']>;

/** What listens for each event of the client. */
function listenersOf(client: Client): Map<string, unknown[]> {
  const names = client.eventNames() as 'topologyDescriptionChanged'[];
  return new Map(names.map((name) => [name, client.listeners(name)]));
}

/**
 * A connection for the gateway's models that shares the client of another one, and is of a mongoose of its own: no plugin, setting or
 * option of a host's mongoose or connection meets the models, and the host does not find them among its own.
 */
export function modelConnection(connection: Connection): Connection {
  const { Mongoose } = connection.base as Mongoose & { readonly Mongoose: new () => Mongoose };
  const client = connection.getClient();
  const before = listenersOf(client);
  const own = new Mongoose().createConnection().setClient(client);
  // mongoose buffers its own commands by these, which the gateway does not use; on a host's client they would stay for good
  for (const [name, listeners] of listenersOf(client)) {
    const added = listeners.filter((listener) => !before.get(name)?.includes(listener));
    for (const listener of added) client.off(name as 'topologyDescriptionChanged', listener as () => void);
  }
  return own.name === connection.name ? own : own.useDb(connection.name);
}

/** What is read of a pool of the driver (mongodb 7.8): one for each server. Nothing in it is changed. */
interface Pool {
  readonly currentCheckedOutCount?: number;
  readonly availableConnectionCount?: number;
  readonly pendingConnectionCount?: number;
  readonly waitQueueSize?: number;
}

/** The driver's internals that lead to the pools. No public API does. */
interface Internals {
  readonly topology?: { readonly s?: { readonly servers?: ReadonlyMap<string, { readonly pool?: Pool }> } };
}

/** The driver's pools of connections. If its objects have another form, there are none. */
function* poolsOf(client: Client): Iterable<Pool> {
  for (const { pool } of (client as unknown as Internals).topology?.s?.servers?.values() ?? []) {
    if (pool) yield pool;
  }
}

/** The connections of a client to all its servers. Its monitoring has one more to each server, which is not counted. */
export interface PoolUsage {
  readonly inUse: number;
  readonly idle: number;
  readonly opening: number;
  /** Commands that wait for a connection. */
  readonly waiting: number;
}

export function poolUsage(client: Client): PoolUsage {
  const pools = [...poolsOf(client)];
  const sum = (count: (pool: Pool) => number | undefined) =>
    pools.reduce((total, pool) => total + (count(pool) ?? 0), 0);
  return {
    inUse: sum((pool) => pool.currentCheckedOutCount),
    idle: sum((pool) => pool.availableConnectionCount),
    opening: sum((pool) => pool.pendingConnectionCount),
    waiting: sum((pool) => pool.waitQueueSize),
  };
}

/** What a host may do about a standalone mongod; the command has no such option. */
export const orAllowStandalone = ', or set allowStandalone to accept that';

/**
 * Refuses a standalone mongod, which has no majority to keep a write, and no transactions.
 * @returns whether transactions are possible
 * @throws GatewayError `invalid_options` unless `allowStandalone` is set; then it logs a warning
 */
export async function requireReplicaSet(
  connection: Connection,
  { allowStandalone, logger }: Pick<ResolvedOptions, 'allowStandalone' | 'logger'>,
): Promise<boolean> {
  const { setName, msg } = await databaseOf(connection, { name: 'admin' }).command({ hello: 1 });
  // a mongos means a sharded cluster of replica sets
  if (setName !== undefined || msg === 'isdbgrid') return true;
  if (!allowStandalone) {
    const problem =
      'this is a standalone mongod: an event acknowledged by it can be lost with its disk, and there are no transactions';
    const remedy = `start it with --replSet and run rs.initiate() once${orAllowStandalone}`;
    refuse('invalid_options', 'mongo', `${problem}; ${remedy}`);
  }
  logger.warn('mongo is a standalone mongod: acknowledged writes can be lost with its disk; no transactions');
  return false;
}
