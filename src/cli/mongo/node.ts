import { setTimeout as sleep } from 'node:timers/promises';
import { type Mongod, type MongodOptions, startMongod } from './mongod.ts';
import { startOnData } from './takeover.ts';

/** One member of the replica set. */
export interface MongoNode {
  /** `127.0.0.1:<port>` */
  readonly host: string;
  readonly port: number;
  /** Of the mongod that runs now, or ran last. */
  readonly pid: number;
  /** Ends it with SIGKILL and leaves it down, for tests of what others do meanwhile. */
  kill(): Promise<void>;
  /** Brings it back after `kill`, on the same data and port. */
  start(): Promise<void>;
  /** Ends it in order, by force after 15 s. */
  stop(): Promise<void>;
}

export type NodeOptions = MongodOptions & { readonly log: (line: string) => void };

/** Milliseconds. */
const stopTimeout = 15_000;
/** How often it is started again; more would be a fault that a restart does not repair. */
const maxRestarts = 5;

async function endInOrder(mongod: Mongod): Promise<void> {
  const ended = new AbortController();
  mongod.kill('SIGTERM');
  const forced = sleep(stopTimeout, undefined, { signal: ended.signal }).then(
    () => mongod.kill('SIGKILL'),
    () => {},
  );
  await mongod.ended;
  ended.abort();
  await forced;
}

/** Starts a member on its data, and starts it again when it ends without having been asked to: for example because memory ran out. */
export async function startNode(options: NodeOptions, dataDir: string): Promise<MongoNode> {
  let mongod = await startOnData(options, dataDir);
  const { port } = mongod;
  /** Whether its end would be unexpected. */
  let shouldRun = true;
  let restarts = 0;
  let restarting: Promise<void> | undefined;

  async function startAgain(): Promise<void> {
    mongod = await startMongod({ ...options, preferredPort: port });
    void watch(mongod);
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

  async function watch(running: Mongod): Promise<void> {
    await running.ended;
    if (shouldRun) restarting = recover();
  }

  void watch(mongod);
  return {
    host: `127.0.0.1:${port}`,
    port,
    get pid() {
      return mongod.pid;
    },
    async kill() {
      shouldRun = false;
      mongod.kill('SIGKILL');
      await mongod.ended;
    },
    async start() {
      shouldRun = true;
      await startAgain();
    },
    async stop() {
      shouldRun = false;
      await restarting;
      await endInOrder(mongod);
    },
  };
}
