import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { forkConfigured } from '../../support/processes/configured-process.ts';
import type { Reading } from '../verdict/flatness.ts';
import type { CompiledWorker } from './compile.ts';
import type { Crash } from './crash-points.ts';
import type { ReadingMessage } from './readings.ts';
import type { DisarmedMessage, PublishReply, PublishRequest, ReadyMessage, WorkerConfig } from './worker.ts';

/** How a worker differs from the others. */
export interface Peculiarity {
  /** Milliseconds by which its clock is wrong. */
  readonly skew?: number;
}

/** Where a worker serves HTTP. */
export interface WorkerAddress {
  readonly pid: number;
  /** Without `/v1`. */
  readonly url: string;
}

/** How and when a worker ended. */
export interface WorkerEnd {
  readonly pid: number;
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A worker's answer, and how long it took. Milliseconds. */
type TimedReply = PublishReply & { readonly took: number };

/** What a running worker is told that is done to it. */
export interface Control {
  /** Milliseconds by which its clock is wrong from now on. */
  readonly clockSkew?: number;
  /** Whether it finds no address for any name. */
  readonly namesAreGone?: boolean;
  /** Asks it to tell what it holds. */
  readonly tellsReading?: boolean;
  /** Where it dies or stops from now on; `null` for nowhere. */
  readonly crash?: Crash | null;
}

interface Member {
  readonly child: ChildProcess;
  readonly waiting: Map<number, (reply: PublishReply) => void>;
  /** Absent until it works. */
  address?: WorkerAddress;
  /** Whether it was told where to die or stop. */
  isArmed: boolean;
}

/** Milliseconds. */
const readingTimeout = 10_000;
/** So many in a row are not ready before a fault of the worker is the likely cause. */
const mostFailedStarts = 10;

/** Worker processes: as many as wanted, replaced when they die. @param onKilled told of each that could not end in order */
export function startWorkers(
  { worker, preloaded }: CompiledWorker,
  config: WorkerConfig,
  size: number,
  onKilled: () => void,
) {
  const members = new Set<Member>();
  let standing: readonly Peculiarity[] = [];
  let begun = 0;
  let failedStarts = 0;
  let open = true;
  let serial = 0;
  const ends: WorkerEnd[] = [];
  const readings = new Map<number, Reading>();

  function nextPeculiarity(): Peculiarity {
    const next = standing[begun % Math.max(1, standing.length)] ?? {};
    begun += 1;
    return next;
  }

  function startWorker(peculiarity = nextPeculiarity()): void {
    const { skew = 0 } = peculiarity;
    const child = forkConfigured(worker, config, {
      execArgv: preloaded.flatMap((file) => ['--import', file]),
      env: { ...process.env, CLOCK_SKEW_MS: String(skew) },
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    const member: Member = { child, waiting: new Map(), isArmed: false };
    members.add(member);
    child.on('message', (message: PublishReply | ReadyMessage | ReadingMessage | DisarmedMessage) => {
      if ('disarmed' in message) {
        member.isArmed = false;
        return;
      }
      if ('reading' in message) {
        readings.set(message.reading.pid, message.reading);
        return;
      }
      if ('url' in message) {
        failedStarts = 0;
        member.address = { pid: child.pid as number, url: message.url };
        return;
      }
      member.waiting.get(message.serial)?.(message);
      member.waiting.delete(message.serial);
    });
    child.once('exit', (code, signal) => {
      if (signal === 'SIGKILL') onKilled();
      members.delete(member);
      // there may be no primary just then; as a supervisor would, start another like it
      if (!member.address && code !== null) {
        failedStarts += 1;
        if (failedStarts > mostFailedStarts)
          throw new Error(`${failedStarts} workers ended with ${code} before they were ready`);
        if (open) startWorker(peculiarity);
        return;
      }
      ends.push({ pid: child.pid as number, at: Date.now(), code, signal });
      for (const [lost, reply] of member.waiting) reply({ serial: lost, error: 'the worker died' });
      if (open) startWorker();
    });
  }

  for (let i = 0; i < size; i += 1) startWorker();
  const readyOnes = () => [...members].filter(({ address, child }) => address && child.connected);

  async function untilReady(count: number): Promise<void> {
    while (readyOnes().length < count) await new Promise((resolve) => setTimeout(resolve, 20));
  }

  /** Has a worker die or stop at a point, one that was not told to yet; `null` where there is none. */
  function armNow(crash: Crash): ChildProcess | null {
    const free = readyOnes().find(({ isArmed }) => !isArmed);
    if (!free) return null;
    free.isArmed = true;
    free.child.send({ crash } satisfies Control);
    return free.child;
  }

  return {
    size,
    untilReady,
    /** All of those that ended so far. */
    ends: (): readonly WorkerEnd[] => ends,
    addresses: () => readyOnes().flatMap(({ address }) => address ?? []),
    /** Workers that work now, in a stable order. */
    running: () => readyOnes().map(({ child }) => child),
    /** What those hold that work now; those that do not answer in time are left out. */
    async readings(): Promise<readonly Reading[]> {
      readings.clear();
      const asked = readyOnes();
      for (const { child } of asked) child.send({ tellsReading: true } satisfies Control);
      const until = performance.now() + readingTimeout;
      while (readings.size < asked.length && performance.now() < until) await sleep(50);
      return [...readings.values()];
    },
    /** @default all who work now */
    tell(control: Control, ...children: readonly ChildProcess[]) {
      for (const child of children.length > 0 ? children : readyOnes().map((one) => one.child)) child.send(control);
    },
    armNow,
    /** The same as soon as there is one. */
    async arm(crash: Crash): Promise<ChildProcess> {
      for (;;) {
        const worker = armNow(crash);
        if (worker) return worker;
        await sleep(20);
      }
    },
    /** Wakes it; resolves when it dies and stops nowhere any more. It may have stopped before it read that it is not to. */
    async disarm(child: ChildProcess) {
      const member = [...members].find((one) => one.child === child);
      if (child.connected) child.send({ crash: null } satisfies Control, () => {});
      while (member?.isArmed && members.has(member)) {
        child.kill('SIGCONT');
        await sleep(20);
      }
    },
    /** Every worker from now on is like one of these, in turn. */
    becomes(...peculiarities: Peculiarity[]) {
      standing = peculiarities;
    },
    /** Asks a worker to publish; resolves with its answer, or with an error when it died over it. */
    async publish(request: Omit<PublishRequest, 'serial'>): Promise<TimedReply> {
      await untilReady(1);
      const ready = readyOnes();
      const member = ready[serial % ready.length];
      serial += 1;
      const mine = serial;
      if (!member) return { serial: mine, error: 'the worker died', took: 0 };
      const started = performance.now();
      const reply = await new Promise<PublishReply>((resolve) => {
        member.waiting.set(mine, resolve);
        member.child.send({ ...request, serial: mine }, (error) => {
          if (!error) return;
          member.waiting.delete(mine);
          resolve({ serial: mine, error: 'the worker died' });
        });
      });
      return { ...reply, took: performance.now() - started };
    },
    /** Resolves when others work in their place, to how long they took to end. Milliseconds. */
    async replaceAll(signal: NodeJS.Signals): Promise<number> {
      const old = readyOnes();
      const gone = old.map(({ child }) => once(child, 'exit'));
      const started = performance.now();
      for (const { child } of old) child.kill(signal);
      await Promise.all(gone);
      const took = performance.now() - started;
      await untilReady(size);
      return took;
    },
    async stop() {
      open = false;
      const gone = [...members].map(({ child }) => once(child, 'exit'));
      for (const { child } of members) child.kill('SIGKILL');
      await Promise.all(gone);
    },
  };
}

export type Workers = ReturnType<typeof startWorkers>;
