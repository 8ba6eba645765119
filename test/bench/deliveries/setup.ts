import type { ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import mongoose, { type Connection } from 'mongoose';
import { type EmbeddedMongo, startEmbeddedMongo } from '../../../src/cli/mongo/embedded-mongo.ts';
import { newSecretKey } from '../../support/gateway.ts';
import { forkConfigured } from '../../support/processes/configured-process.ts';
import { mongodUsage, type Usage } from './usage.ts';

const secret = 'the-secret-of-the-bench';
/** More options of Node, for a profile: `BENCH_NODE_OPTIONS=--cpu-prof`. */
export const nodeOptionsForProfile = process.env.BENCH_NODE_OPTIONS?.split(' ') ?? [];
/**
 * Node lets garbage pile up to some 300 MB where nobody says otherwise, whatever is in use; this is what is said, to each
 * of the scripts beside this file alike. Node 24 keeps more young garbage than Node 20, which has 16.
 */
const nodeOptions = ['--max-old-space-size=192', '--max-semi-space-size=16', ...nodeOptionsForProfile];
/** How long a delivery is waited for: stock Agenda takes minutes. Milliseconds. */
const maxWait = 600_000;

/** One delivery as it arrived; times are milliseconds of the machine's monotonic clock. */
export interface Arrival {
  readonly id: string;
  readonly path: string;
  readonly at: number;
  readonly signed: boolean;
}

/** One event as it was published. */
export interface Published {
  readonly id: string;
  readonly sent: number;
  readonly accepted: number;
}

/** Where and how to publish. */
export interface Target {
  readonly port: number;
  readonly key: string;
}

/** A process of the benchmark. */
export interface Process {
  readonly child: ChildProcess;
  call<T>(name: string, ...args: unknown[]): Promise<T>;
  end(): Promise<void>;
}

/** Starts one of the scripts beside this file, without a loader, so that it is measured alone. */
async function startProcess(script: string, config: unknown): Promise<Process> {
  const path = fileURLToPath(new URL(script, import.meta.url));
  const child = forkConfigured(path, config, { execArgv: nodeOptions, serialization: 'advanced' });
  const ended = once(child, 'exit').then(([status]) => {
    throw new Error(`${script} ended with status ${status}`);
  });
  const [ready] = await Promise.race([once(child, 'message'), ended]);
  ended.catch(() => {});
  if (ready !== 'ready') throw new Error(`${script} did not start`);
  let serial = 0;
  return {
    child,
    call<T>(name: string, ...args: unknown[]) {
      serial += 1;
      const id = serial;
      return new Promise<T>((resolve, reject) => {
        const onMessage = (message: { id: number; result: T; error?: string }) => {
          if (message.id !== id) return;
          child.off('message', onMessage);
          if (message.error === undefined) resolve(message.result);
          else reject(new Error(message.error));
        };
        child.on('message', onMessage);
        child.send({ id, name, args });
      });
    },
    async end() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.disconnect();
      await once(child, 'exit');
    },
  };
}

/** A real mongod of the benchmark's own, a receiver and a load generator, each a process of its own. */
export interface Setup {
  /** Of every webhook. */
  readonly secret: string;
  /** Seals them. */
  readonly secretKey: string;
  readonly mongo: Pick<EmbeddedMongo, 'uri' | 'nodes'>;
  readonly connection: Connection;
  readonly receiver: Process;
  readonly load: Process;
  /** A gateway in a process of its own. */
  sender(options?: object): Promise<Process>;
  /** Stock Agenda in a process of its own. */
  stock(): Promise<Process>;
  /** So many URLs below a name. */
  urls(name: string, count: number): string[];
  /**
   * The arrivals once there are so many.
   * @throws when a signature is wrong, when one does not come, or comes twice
   */
  arrivals(count: number): Promise<Arrival[]>;
  /** What a sender and mongod have used so far. */
  usage(sender: Process): Promise<Usage>;
  /** Ends the gateway of a process, and then the process. */
  closed(sender: Process): Promise<void>;
  close(): Promise<void>;
}

export const now = (): number => Number(process.hrtime.bigint()) / 1e6;

/** What came of a kill: twice is allowed, never lost. */
export function countDoubles(arrivals: readonly Arrival[]): number {
  return arrivals.length - new Set(arrivals.map(({ id, path }) => `${id} ${path}`)).size;
}

/** The URI of a database of the server. `URL` reads none that names several hosts. */
export function uriOf({ uri }: Pick<EmbeddedMongo, 'uri'>, database: string): string {
  return uri.replace(/\/\w+\?/, `/${database}?`);
}

/** The URI of a database of the server that nobody has used. */
export const newUri = (mongo: Setup['mongo']): string => uriOf(mongo, `bench_${randomBytes(4).toString('hex')}`);

/** @param members of the replica set */
export async function openSetup(members = 1): Promise<Setup> {
  const mongo = await startEmbeddedMongo({ temporary: true, replicas: members });
  const uri = newUri(mongo);
  // its own heartbeats would count among the operations of what is idle
  const connection = await mongoose.createConnection(uri, { heartbeatFrequencyMS: 60_000 }).asPromise();
  const config = { uri, secretKey: newSecretKey() };
  const receiver = await startProcess('receiver.mjs', { secret });
  const load = await startProcess('load.mjs', {});
  const port = await receiver.call<number>('port');
  const opened: Process[] = [receiver, load];

  async function open(script: string, more: object): Promise<Process> {
    const started = await startProcess(script, { ...config, ...more });
    opened.push(started);
    return started;
  }

  return {
    secret,
    secretKey: config.secretKey,
    mongo,
    connection,
    receiver,
    load,
    sender: (options = {}) => open('sender.mjs', { options }),
    stock: () => open('agenda.mjs', {}),
    urls: (name, count) => Array.from({ length: count }, (_, i) => `http://127.0.0.1:${port}/${name}/${i}`),
    async arrivals(count) {
      const until = now() + maxWait;
      while ((await receiver.call<number>('count')) < count) {
        if (now() > until) throw new Error(`${await receiver.call('count')} of ${count} deliveries came`);
        await sleep(50);
      }
      const taken = await receiver.call<Arrival[]>('take');
      if (taken.some(({ signed }) => !signed)) throw new Error('a signature was wrong');
      const doubles = countDoubles(taken);
      if (doubles > 0) throw new Error(`${doubles} deliveries came twice`);
      return taken;
    },
    async usage(sender) {
      const { cpu } = await sender.call<{ cpu: number }>('usage');
      return { cpu, ...(await mongodUsage(connection)) };
    },
    async closed(sender) {
      await sender.call('close');
      await sender.end();
    },
    async close() {
      for (const one of opened) await one.end();
      await connection.close();
      await mongo.stop();
    },
  };
}
