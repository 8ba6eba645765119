import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import mongoose, { type Connection } from 'mongoose';
import { memoryFolder } from './database/memory-folder.ts';

/**
 * The server that the tests of a process use: one replica set, started once; each suite gets a database of its own. Where mocha
 * runs files in several processes, each has its own server, so that a failpoint meets the tests of that process alone.
 */
let serverUri = '';
let stop: () => Promise<void> = async () => {};
/** Whether mocha runs files in several processes: hooks run for each file then, and mocha ends its processes itself. */
const isParallel = process.env.MOCHA_WORKER_ID !== undefined;

/** Databases whose tests are over. */
const dropping = new Map<Connection, Promise<unknown>>();
/**
 * How long they are waited for at the end: one is held by the transaction of a process that a test has killed until the
 * server gives that up, after 60 to 90 s. A server of our own is stopped before. Milliseconds.
 */
const maxWait = () => (process.env.TEST_MONGODB_URI ? 100_000 : 5_000);

/** How long after the last test something may still keep the process from ending. Milliseconds. */
const longestEnd = 60_000;

/** Ends a run that a test keeps from ending, as one that failed: by what it has left open, it would never be over. */
function endEventually(): void {
  setTimeout(() => {
    console.error('After the tests, still open:', process.getActiveResourcesInfo().join(', '));
    // mocha says how many tests failed when the process ends; this listener comes after its
    process.on('exit', (code) => {
      process.exitCode = code || 1;
    });
    process.exit();
  }, longestEnd).unref();
}

export const mochaHooks = {
  async beforeAll(this: Mocha.Context): Promise<void> {
    this.timeout(180_000);
    if (serverUri) return;
    if (process.env.TEST_MONGODB_URI) {
      serverUri = process.env.TEST_MONGODB_URI;
      return;
    }
    const { startEmbeddedMongo } = await import('../../src/cli/mongo/embedded-mongo.ts');
    const embedded = await startEmbeddedMongo({
      temporary: true,
      dataDir: await memoryFolder(),
      testCommands: true,
      log: (line) => console.error(line),
    });
    serverUri = embedded.uri;
    stop = embedded.stop;
  },
  async afterAll(this: Mocha.Context): Promise<void> {
    this.timeout(120_000);
    // waits no longer than that
    await Promise.race([Promise.all(dropping.values()), sleep(maxWait(), undefined, { ref: false })]);
    // the server of a parallel process ends with it
    if (!isParallel) await stop();
    await Promise.all([...dropping.keys()].map((connection) => connection.close(true)));
    dropping.clear();
    if (isParallel) return;
    await Promise.all(emptied.splice(0).map((connection) => connection.close(true)));
    endEventually();
  },
};

/** The URI of a database of the server. */
export function uriOf(database: string): string {
  const url = new URL(serverUri);
  url.pathname = `/${database}`;
  return url.href;
}

/** The URI of a database that nobody else uses. */
export function freshUri(): string {
  return uriOf(`t_${randomBytes(6).toString('hex')}`);
}

/** Drops the database of a connection and closes it. The server takes a tenth of a second, for which the last test waits alone. */
export function dropLater(connection: Connection): void {
  const dropped = connection.dropDatabase().finally(() => connection.close());
  dropping.set(
    connection,
    dropped.catch(() => {}),
  );
}

/** As README tells hosts to open their connections. Milliseconds. */
export const connectionTimes = {
  serverSelectionTimeoutMS: 5_000,
  connectTimeoutMS: 3_000,
  socketTimeoutMS: 5_000,
  maxIdleTimeMS: 2_000,
  heartbeatFrequencyMS: 1_000,
} as const;

/** The same for a machine so busy with tests that the server may take longer, as far as a gateway warns of nothing. */
const hostTimes = {
  ...connectionTimes,
  connectTimeoutMS: 2 * connectionTimes.connectTimeoutMS,
  socketTimeoutMS: 2 * connectionTimes.socketTimeoutMS,
} as const;

/** The same URI, for a connection that gives the server up only where it is silent for a minute, however busy the machine is. */
export function patientUri(uri: string): string {
  const url = new URL(uri);
  for (const name of ['serverSelectionTimeoutMS', 'connectTimeoutMS', 'socketTimeoutMS'])
    url.searchParams.set(name, '60000');
  return url.href;
}

/** A connection to a fresh database, and what removes both. */
export async function freshDatabase(): Promise<{ connection: Connection; uri: string; drop: () => Promise<void> }> {
  const uri = freshUri();
  const connection = await mongoose.createConnection(uri, hostTimes).asPromise();
  return {
    connection,
    uri,
    drop: async () => dropLater(connection),
  };
}

/** Databases of gateways that have closed, without a document. */
const emptied: Connection[] = [];

/** Removes every document, one collection at a time: at once, each takes a connection. */
async function empty(connection: Connection): Promise<void> {
  for (const { name } of await connection.listCollections()) {
    await connection.collection(name).deleteMany({}, { writeConcern: { w: 1 } });
  }
}

/**
 * A database for one gateway, which nobody else knows of, and what gives it back when that gateway has closed. The next gateway gets
 * it with its collections and indexes: starting and closing one takes 47 ms of mongod's CPU in place of 186, and 116 of node's in
 * place of 149.
 */
export async function gatewayDatabase(): Promise<{
  connection: Connection;
  /** @param isAtRest whether nothing of its gateway can still come to it; if not, it is dropped */
  giveBack: (isAtRest: boolean) => Promise<void>;
}> {
  const connection = emptied.pop() ?? (await freshDatabase()).connection;
  let isTaken = true;
  return {
    connection,
    async giveBack(isAtRest) {
      if (!isTaken) return;
      isTaken = false;
      // no server but our own ends with the tests
      if (process.env.TEST_MONGODB_URI || !isAtRest) return dropLater(connection);
      await empty(connection);
      emptied.push(connection);
    },
  };
}
