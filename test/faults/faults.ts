import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Cluster } from './cluster/cluster.ts';
import type { MemberClocks } from './cluster/member-clocks.ts';
import type { Random } from './random.ts';
import type { Disturbances } from './verdict/disturbances.ts';
import { crashPoints } from './workers/crash-points.ts';
import type { Workers } from './workers/workers.ts';

/** Where faults happen. */
export interface Scene {
  readonly cluster: Cluster;
  readonly workers: Workers;
  readonly random: Random;
  /** Where it is written down when the database is broken; the workers tell of those that died. */
  readonly disturbances: Disturbances;
  /** Whether this is the long form. */
  readonly long: boolean;
  readonly memberClocks: Pick<MemberClocks, 'step'>;
}

/** Where faults happen while there is load. */
export interface LoadedScene extends Scene {
  /** Runs this while nothing is published or called, and nothing is left to do. */
  atRest(run: () => Promise<void>): Promise<void>;
}

/** One row of the table: what goes wrong, how often, and how it is made to. */
export interface Fault {
  readonly name: string;
  readonly short: number;
  readonly full: number;
  /** Makes it happen so many times while events are published. */
  inject(scene: LoadedScene, times: number): Promise<void>;
}

export async function repeat(times: number, once: (i: number) => Promise<void>): Promise<void> {
  for (let i = 0; i < times; i += 1) await once(i);
}

const failures: readonly object[] = [
  { failCommands: ['findAndModify', 'update', 'insert', 'find'], closeConnection: true },
  {
    failCommands: ['findAndModify', 'update', 'insert'],
    writeConcernError: { code: 64, errmsg: 'waiting for replication timed out' },
  },
  { failCommands: ['findAndModify', 'update', 'insert', 'find'], errorCode: 10_107 },
  { failCommands: ['findAndModify', 'update', 'insert'], errorCode: 11_600 },
];

async function failCommands({ cluster, random }: Scene): Promise<void> {
  const data = { appName: 'faults-worker', ...random.pick(failures) };
  const mode = { times: 1 + random.below(8) };
  await cluster.admin.command({ configureFailPoint: 'failCommand', mode, data });
  await sleep(700);
  await cluster.admin.command({ configureFailPoint: 'failCommand', mode: 'off' });
}

/** A fault of the database: it is not itself until this has ended. */
export const inDatabase =
  (breakOnce: (scene: Scene) => Promise<void>): Fault['inject'] =>
  (scene, times) =>
    repeat(times, () => scene.disturbances.during(() => breakOnce(scene)));

/** By how much the clocks of workers are wrong from their start. Milliseconds. */
const clockSkews = [15 * 60_000, -3_600_000];

/** Everything that is made to go wrong. */
export const faults: readonly Fault[] = [
  {
    name: 'worker SIGKILL while delivering',
    short: 4,
    full: 200,
    inject: ({ workers, random }, times) =>
      repeat(times, async () => {
        await workers.untilReady(2);
        await sleep(200 + random.below(400));
        // those killed before may have been counted above
        await workers.untilReady(1);
        random.pick(workers.running()).kill('SIGKILL');
      }),
  },
  {
    name: 'worker dies at a crash point',
    short: crashPoints.length,
    full: 20 * crashPoints.length,
    async inject({ workers, random }, times) {
      const dying: Promise<unknown>[] = [];
      for (let i = 0; i < times; i += 1) {
        const point = crashPoints[i % crashPoints.length] ?? 'publish';
        const worker = await workers.arm({ point, after: 1 + random.below(4) });
        dying.push(once(worker, 'exit'));
      }
      await Promise.all(dying);
      await workers.untilReady(workers.size);
    },
  },
  {
    name: 'mongod SIGKILL and restart',
    short: 1,
    full: 20,
    inject: inDatabase(async ({ cluster, random }) => {
      const node = random.pick(cluster.nodes);
      await node.kill();
      await sleep(500 + random.below(1_500));
      await node.start();
      await cluster.primary();
      await sleep(1_500);
    }),
  },
  {
    name: 'primary SIGKILL',
    short: 1,
    full: 10,
    inject: inDatabase(async ({ cluster }) => {
      const { node } = await cluster.primary();
      await node.kill();
      await sleep(3_000);
      await cluster.primary();
      await node.start();
      await sleep(1_000);
    }),
  },
  {
    name: 'primary stepped down',
    short: 1,
    full: 10,
    inject: inDatabase(async ({ cluster }) => {
      await cluster.primary();
      await cluster.admin.command({ replSetStepDown: 10, force: true }).catch(() => {});
      await sleep(3_000);
    }),
  },
  {
    name: 'primary stopped',
    short: 1,
    full: 5,
    inject: inDatabase(async ({ cluster, long }) => {
      const { node } = await cluster.primary();
      process.kill(node.pid, 'SIGSTOP');
      await sleep(long ? 15_000 : 6_000);
      process.kill(node.pid, 'SIGCONT');
      await sleep(2_000);
    }),
  },
  {
    name: 'commands failing by failpoint',
    short: 5,
    full: 290,
    inject: inDatabase(failCommands),
  },
  {
    name: 'Agenda collection dropped',
    short: 1,
    full: 5,
    inject: ({ cluster }, times) =>
      repeat(times, async () => {
        await sleep(1_000);
        await cluster.connection.collection('gateway_jobs').drop();
        await sleep(1_000);
      }),
  },
  {
    name: 'worker clocks 15 minutes ahead and 1 hour behind',
    short: 1,
    full: 5,
    inject: ({ workers, disturbances, long }, times) =>
      repeat(times, () =>
        disturbances.skewed(clockSkews, async () => {
          workers.becomes(...clockSkews.map((skew) => ({ skew })));
          await workers.replaceAll('SIGTERM');
          await sleep(long ? 4_000 : 2_000);
          workers.becomes();
          await workers.replaceAll('SIGTERM');
        }),
      ),
  },
  {
    name: 'SIGTERM under load',
    short: 1,
    full: 20,
    inject: ({ workers }, times) =>
      repeat(times, async () => {
        await sleep(500);
        const seconds = (await workers.replaceAll('SIGTERM')) / 1_000;
        if (seconds > 40) throw new Error(`the workers took ${seconds} s to end`);
      }),
  },
];
