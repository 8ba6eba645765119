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
  /** Ends it with SIGKILL, as a crash would; `start` brings it back on the same data and port. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** Ends it in order, by force after 15 s. */
  stop(): Promise<void>;
}

const stopBound = 15_000;

/** Starts a member on its data and speaks up when its mongod ends without having been asked to. */
export async function startNode(
  options: MongodOptions & { readonly log: (line: string) => void },
  dataDir: string,
): Promise<MongoNode> {
  let mongod: Mongod = await startOnData(options, dataDir);
  const expected = new WeakSet<Mongod>();
  const { port } = mongod;

  function watch(running: Mongod): void {
    void running.ended.then(() => {
      if (!expected.has(running)) options.log(`mongod ended unexpectedly; its log is ${options.logPath}`);
    });
  }

  watch(mongod);
  return {
    host: `127.0.0.1:${port}`,
    port,
    get pid() {
      return mongod.pid;
    },
    async kill() {
      expected.add(mongod);
      mongod.kill('SIGKILL');
      await mongod.ended;
    },
    async start() {
      mongod = await startMongod({ ...options, preferredPort: port });
      watch(mongod);
    },
    async stop() {
      expected.add(mongod);
      mongod.kill('SIGTERM');
      const late = new AbortController();
      const forced = sleep(stopBound, undefined, { signal: late.signal }).then(
        () => mongod.kill('SIGKILL'),
        () => {},
      );
      await mongod.ended;
      late.abort();
      await forced;
    },
  };
}
