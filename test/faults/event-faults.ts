import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { EventDocument } from '../../src/events/model.ts';
import { firstId } from '../../src/ids.ts';
import { until } from '../support/until.ts';
import { type Fault, repeat, type Scene } from './faults.ts';
import type { CrashPoint } from './workers/crash-points.ts';

/** How long a fault may take to come about, on a busy machine. Milliseconds. */
const happensWithin = 60_000;
/** How long two sweeps have to meet, before it is tried with another event, and how long that is tried in all. Milliseconds. */
const meetWithin = 15_000;
const meetWithinInAll = 180_000;

/** Whether it was stopped by a signal, as Linux tells. */
async function isStopped({ pid }: ChildProcess): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '');
  return stat.slice(stat.lastIndexOf(')') + 2).startsWith('T');
}

/** Resolves with what tells whether an event has since been taken from a process whose lease on it had lapsed, also one that was taken before. */
async function taking({ cluster }: Scene): Promise<() => Promise<boolean>> {
  const events = cluster.connection.collection<EventDocument>('gateway_events');
  const $gt = firstId('evt', Date.now() - happensWithin);
  async function taken(): Promise<number> {
    const held = await events.find({ _id: { $gt }, fanOutLeases: { $gt: 1 } }).toArray();
    return held.reduce((sum, { fanOutLeases }) => sum + fanOutLeases - 1, 0);
  }
  const before = await taken();
  return async () => (await taken()) > before;
}

const killedAt =
  (point: CrashPoint): Fault['inject'] =>
  (scene, times) =>
    repeat(times, async () => {
      const wasTaken = await taking(scene);
      await once(await scene.workers.arm({ point, after: 1 }), 'exit');
      await until(wasTaken, happensWithin, 'another worker takes the event');
    });

async function stopInFirstAttempt(scene: Scene): Promise<void> {
  const { workers, disturbances, random } = scene;
  const worker = await workers.arm({ point: 'first attempt', after: 1, signal: 'SIGSTOP' });
  await disturbances.stopped(worker.pid as number, async () => {
    await until(() => isStopped(worker), happensWithin, 'the worker stops');
    await until(await taking(scene), happensWithin, 'another worker takes the event');
    // before and after others have made the attempts again
    await sleep(random.below(500));
    await workers.disarm(worker);
  });
}

/** Stops each worker when it takes an event that was left; resolves with whether two were stopped, which then take it at once. */
async function meet({ workers, disturbances }: Scene): Promise<boolean> {
  const deadline = performance.now() + meetWithin;
  let wake = () => {};
  const woken = new Promise<void>((resolve) => {
    wake = resolve;
  });
  const stops: Promise<void>[] = [];
  const armed: ChildProcess[] = [];
  let stopped: ChildProcess[] = [];
  while (stopped.length < 2 && performance.now() < deadline) {
    await sleep(20);
    const worker = workers.armNow({ point: 'take', after: 1, signal: 'SIGSTOP' });
    if (worker) {
      armed.push(worker);
      stops.push(disturbances.stopped(worker.pid as number, () => woken));
    }
    const states = await Promise.all(armed.map(isStopped));
    stopped = armed.filter((_, i) => states[i]);
  }
  await Promise.all(armed.map(workers.disarm));
  wake();
  await Promise.all(stops);
  return stopped.length >= 2;
}

async function meetInSweep(scene: Scene): Promise<void> {
  const { workers, disturbances } = scene;
  await disturbances.during(async () => {
    const started = performance.now();
    do {
      if (performance.now() - started > meetWithinInAll) throw new Error('no two sweeps have met');
      await once(await workers.arm({ point: 'after publish', after: 1 }), 'exit');
    } while (!(await meet(scene)));
  });
}

/** What may happen to a process that has an event, and to what it leaves. */
export const eventFaults: readonly Fault[] = [
  {
    name: 'worker killed before the first outcome of its event',
    short: 1,
    full: 20,
    inject: killedAt('after publish'),
  },
  {
    name: 'worker killed after all outcomes of its event, before it marks it',
    short: 1,
    full: 20,
    inject: killedAt('mark'),
  },
  {
    name: 'worker stopped in a first attempt for longer than its lease, and woken',
    short: 1,
    full: 20,
    inject: (scene, times) => repeat(times, () => stopInFirstAttempt(scene)),
  },
  {
    name: 'worker killed, and its event taken by two sweeps at once',
    short: 1,
    full: 20,
    inject: (scene, times) => repeat(times, () => meetInSweep(scene)),
  },
];

/** These, all at the same time, in one row. */
export function atOnce(name: string, faults: readonly Fault[]): Fault {
  const sum = (count: (fault: Fault) => number) => faults.map(count).reduce((a, b) => a + b, 0);
  return {
    name,
    short: sum(({ short }) => short),
    full: sum(({ full }) => full),
    async inject(scene) {
      await Promise.all(faults.map((fault) => fault.inject(scene, scene.long ? fault.full : fault.short)));
    },
  };
}
