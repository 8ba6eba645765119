import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import type { CompiledWorker } from './compile.ts';
import type { Crash } from './crash-points.ts';
import type { PublishReply, PublishRequest, WorkerConfig } from './worker.ts';

/** How a worker differs from the others. */
export interface Peculiarity {
  readonly crash?: Crash;
  /** Milliseconds by which its clock is wrong. */
  readonly skew?: number;
}

interface Member {
  readonly child: ChildProcess;
  readonly waiting: Map<number, (reply: PublishReply) => void>;
  ready: boolean;
}

/** Worker processes: as many as wanted, replaced when they die. @param onKilled told of each that could not end in order */
export function createCrew(
  { worker, skew: clock }: CompiledWorker,
  config: WorkerConfig,
  size: number,
  onKilled: () => void,
) {
  const members = new Set<Member>();
  /** What the next workers are like; once used up they are like any other. */
  const upcoming: Peculiarity[] = [];
  let standing: readonly Peculiarity[] = [];
  let hired = 0;
  let open = true;
  let serial = 0;
  let deaths = 0;

  function hire(): void {
    const { crash, skew = 0 } = upcoming.shift() ?? standing[hired % Math.max(1, standing.length)] ?? {};
    hired += 1;
    const child = fork(worker, [JSON.stringify({ ...config, ...(crash && { crash }) })], {
      execArgv: ['--import', clock],
      env: { ...process.env, CLOCK_SKEW_MS: String(skew) },
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    const member: Member = { child, waiting: new Map(), ready: false };
    members.add(member);
    child.on('message', (message: PublishReply | 'ready') => {
      if (message === 'ready') {
        member.ready = true;
        return;
      }
      member.waiting.get(message.serial)?.(message);
      member.waiting.delete(message.serial);
    });
    child.once('exit', (code, signal) => {
      if (signal === 'SIGKILL') onKilled();
      // a worker that cannot even start is no fault that was meant
      if (!member.ready && code !== null) throw new Error(`a worker ended with ${code} before it was ready`);
      deaths += 1;
      members.delete(member);
      for (const [lost, reply] of member.waiting) reply({ serial: lost, error: 'the worker died' });
      if (open) hire();
    });
  }

  for (let i = 0; i < size; i += 1) hire();
  const readyOnes = () => [...members].filter(({ ready, child }) => ready && child.connected);

  async function untilReady(count: number): Promise<void> {
    while (readyOnes().length < count) await new Promise((resolve) => setTimeout(resolve, 20));
  }

  return {
    size,
    untilReady,
    deaths: () => deaths,
    /** Workers that work now, in a stable order. */
    workers: () => readyOnes().map(({ child }) => child),
    /** The next workers hired are like this. */
    willHire: (...peculiarities: Peculiarity[]) => void upcoming.push(...peculiarities),
    upcoming: () => upcoming.length,
    /** Every worker from now on is like one of these, in turn. */
    becomes(...peculiarities: Peculiarity[]) {
      standing = peculiarities;
    },
    /** Asks a worker to publish; resolves with its answer, or with an error when it died over it. */
    async publish(request: Omit<PublishRequest, 'serial'>): Promise<PublishReply> {
      await untilReady(1);
      const ready = readyOnes();
      const member = ready[serial % ready.length];
      serial += 1;
      const mine = serial;
      if (!member) return { serial: mine, error: 'no worker' };
      return new Promise((resolve) => {
        member.waiting.set(mine, resolve);
        member.child.send({ ...request, serial: mine }, (error) => {
          if (!error) return;
          member.waiting.delete(mine);
          resolve({ serial: mine, error: 'the worker died' });
        });
      });
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
    async dismiss() {
      open = false;
      const gone = [...members].map(({ child }) => once(child, 'exit'));
      for (const { child } of members) child.kill('SIGKILL');
      await Promise.all(gone);
    },
  };
}

export type Crew = ReturnType<typeof createCrew>;
