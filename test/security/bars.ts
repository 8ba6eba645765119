import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';

/** What a process has used between two questions. */
export interface Measures {
  /** CPU time of all its threads. */
  readonly cpuMs: number;
  /** The most CPU time of its main thread between two ticks of a timer: in wall-clock time, other processes would count. */
  readonly heldMs: number;
  /** The most that its heap and its buffers had, garbage included. */
  readonly peakBytes: number;
  readonly rssBytes: number;
}

/** One request, and what it cost. */
export interface Outcome {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The code of an error. */
  readonly code: string | undefined;
  readonly cpuMs: number;
  readonly heldMs: number;
  readonly grownBytes: number;
}

export interface Sent {
  readonly body: Buffer | string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly account?: string;
}

/** The gateway's edge and relay in a process of their own, which dies of whatever takes more than 192 MB of heap. */
export interface MeasuredEdge {
  readonly port: number;
  readonly process: ChildProcess;
  /** Sends one request and nothing beside it. */
  send(path: string, sent: Sent): Promise<Outcome>;
  /** What was used since the last question. */
  measures(): Promise<Measures>;
  /** How many times as long as on the machine of the bars this one takes now, at least 1. */
  slowness(): Promise<number>;
  close(): Promise<void>;
}

/** What the reference loop takes on the machine that the bars are meant for. CPU time in ms. */
const referenceMs = 75;

/** No request may use more CPU time, whatever it sends. */
const cpuBar = 500;
/** Nor keep all others waiting for longer. */
const heldBar = 100;
/**
 * A body may take so many times its bytes. Beside that, what does not depend on them: the tree that the smallest body may
 * make (4 MiB), and the garbage of a young generation, which is 6 MiB in this process (three semi-spaces of 2 MiB).
 */
const memoryFactor = 4;
const memoryFloor = 10 * 1024 * 1024;

/** What a request may cost is a matter of its bytes, so the least that is measured tells it; other processes only add to it. */
const measuredTimes = 3;

/** An outcome with its times as they are on the machine of the bars. */
async function onReferenceMachine(edge: MeasuredEdge, outcome: Outcome): Promise<Outcome> {
  if (outcome.cpuMs <= cpuBar && outcome.heldMs <= heldBar) return outcome;
  const slowness = await edge.slowness();
  return { ...outcome, cpuMs: outcome.cpuMs / slowness, heldMs: outcome.heldMs / slowness };
}

function isWithin({ cpuMs, heldMs, grownBytes }: Outcome, plainBytes: number): boolean {
  return cpuMs <= cpuBar && heldMs <= heldBar && grownBytes <= memoryFactor * plainBytes + memoryFloor;
}

/** Sends a request and holds what it cost against the bars. @param plainBytes of its body, decompressed */
export async function sendWithinBars(edge: MeasuredEdge, path: string, sent: Sent, plainBytes = sent.body.length) {
  const measure = async () => onReferenceMachine(edge, await edge.send(path, sent));
  let outcome = await measure();
  for (let i = 1; i < measuredTimes && !isWithin(outcome, plainBytes); i += 1) outcome = await measure();
  const { cpuMs, heldMs, grownBytes, status } = outcome;
  const what = `${sent.body.length} bytes, answered ${status}`;
  expect(cpuMs, `CPU time in ms of ${what}`).to.be.at.most(cpuBar);
  expect(heldMs, `ms that the event loop was held by ${what}`).to.be.at.most(heldBar);
  expect(grownBytes, `memory of ${what}`).to.be.at.most(memoryFactor * plainBytes + memoryFloor);
  return outcome;
}

const script = fileURLToPath(new URL('./measured-edge-process.ts', import.meta.url));

export async function startMeasuredEdge(upstream: string): Promise<MeasuredEdge> {
  const execArgv = ['--import=tsx', '--expose-gc', '--max-old-space-size=192', '--max-semi-space-size=2'];
  const child = fork(script, [upstream], { execArgv });
  const [port] = (await once(child, 'message')) as [number];
  const agent = new Agent({ keepAlive: true });
  // whoever waits for a process that has ended would wait for ever
  const onDeath = (code: number | null): boolean => child.emit('error', new Error(`the process has ended: ${code}`));
  child.on('exit', onDeath);
  child.on('error', () => {});

  async function measures(collect = false): Promise<Measures> {
    const answer = once(child, 'message') as Promise<[Measures]>;
    child.send(collect ? 'collect' : 'measure');
    const [used] = await answer;
    return used;
  }

  function exchange(path: string, { body, headers, account = 'usr_1' }: Sent): Promise<Omit<Outcome, keyof Measures>> {
    return new Promise((resolve, reject) => {
      const authorization = `Bearer ${account}`;
      const length = Buffer.byteLength(body);
      const sending = request({ port, path, method: 'POST', agent });
      const all = { authorization, 'content-type': 'application/json', 'content-length': String(length), ...headers };
      for (const [name, value] of Object.entries(all)) sending.setHeader(name, value);
      sending.on('error', reject);
      sending.on('response', async (res) => {
        let text = '';
        for await (const chunk of res.setEncoding('utf8')) text += chunk;
        const code = /"code":"(\w+)"/.exec(text)?.[1];
        resolve({ status: res.statusCode ?? 0, headers: res.headers, text, code, grownBytes: 0 });
      });
      sending.end(body);
    });
  }

  return {
    port,
    process: child,
    measures,
    async slowness() {
      const answer = once(child, 'message') as Promise<[number]>;
      child.send('reference');
      const [loopMs] = await answer;
      return Math.max(1, loopMs / referenceMs);
    },
    async send(path, sent) {
      const isLarge = sent.body.length > 100_000;
      await measures(isLarge);
      const before = await measures();
      const answer = await exchange(path, sent);
      const { cpuMs, heldMs, peakBytes } = await measures();
      return { ...answer, cpuMs, heldMs, grownBytes: Math.max(0, peakBytes - before.peakBytes) };
    },
    async close() {
      agent.destroy();
      child.off('exit', onDeath);
      if (child.connected) {
        child.disconnect();
        await once(child, 'exit');
      }
    },
  };
}
