import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent, type IncomingHttpHeaders, request } from 'node:http';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { compiledScript } from '../../support/processes/compiled-script.ts';

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

/** What something took. */
export interface Cost {
  readonly cpuMs: number;
  readonly heldMs: number;
  readonly grownBytes: number;
}

/** One request, and what it cost. */
export interface Outcome extends Cost {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** The code of an error. */
  readonly code: string | undefined;
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
  /** Runs what sends it requests, and nothing beside. */
  measure<Result>(work: () => Promise<Result>): Promise<Cost & { readonly result: Result }>;
  /** What was used since the last question. */
  measures(): Promise<Measures>;
  /** How many times as long as on the machine of the bounds this one takes now, at least 1. */
  slowness(): Promise<number>;
  close(): Promise<void>;
}

/** What the reference loop takes on the machine that the bounds are meant for. CPU time in ms. */
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
const measuredTimes = 6;

/** A cost with its times as they are on the machine of the bounds. */
async function onReferenceMachine<Measured extends Cost>(edge: MeasuredEdge, cost: Measured): Promise<Measured> {
  if (cost.cpuMs <= cpuBar && cost.heldMs <= heldBar) return cost;
  const slowness = await edge.slowness();
  return { ...cost, cpuMs: cost.cpuMs / slowness, heldMs: cost.heldMs / slowness };
}

function isWithin({ cpuMs, heldMs, grownBytes }: Cost, plainBytes: number): boolean {
  return cpuMs <= cpuBar && heldMs <= heldBar && grownBytes <= memoryFactor * plainBytes + memoryFloor;
}

/** Holds against the bounds what the cheapest of a few tries cost. */
async function withinBounds<Measured extends Cost>(
  edge: MeasuredEdge,
  run: () => Promise<Measured>,
  plainBytes: number,
  describe: (measured: Measured) => string,
): Promise<Measured> {
  const measure = async () => onReferenceMachine(edge, await run());
  let measured = await measure();
  for (let i = 1; i < measuredTimes && !isWithin(measured, plainBytes); i += 1) measured = await measure();
  const { cpuMs, heldMs, grownBytes } = measured;
  const what = describe(measured);
  expect(cpuMs, `CPU time in ms of ${what}`).to.be.at.most(cpuBar);
  expect(heldMs, `ms that the event loop was held by ${what}`).to.be.at.most(heldBar);
  expect(grownBytes, `memory of ${what}`).to.be.at.most(memoryFactor * plainBytes + memoryFloor);
  return measured;
}

/** Sends a request and holds what it cost against the bounds. @param plainBytes of its body, decompressed */
export async function sendWithinBounds(edge: MeasuredEdge, path: string, sent: Sent, plainBytes = sent.body.length) {
  const describe = ({ status }: Outcome) => `${sent.body.length} bytes, answered ${status}`;
  return withinBounds(edge, () => edge.send(path, sent), plainBytes, describe);
}

/** Runs what sends requests, and holds what all of them cost together against the bounds of one. @param bytes of all of them */
export async function runWithinBounds<Result>(
  edge: MeasuredEdge,
  work: () => Promise<Result>,
  bytes: number,
): Promise<Result> {
  const { result } = await withinBounds(
    edge,
    () => edge.measure(work),
    bytes,
    () => `${bytes} bytes`,
  );
  return result;
}

const script = fileURLToPath(new URL('./measured-edge-process.ts', import.meta.url));

export async function startMeasuredEdge(upstream: string): Promise<MeasuredEdge> {
  const execArgv = ['--expose-gc', '--max-old-space-size=192', '--max-semi-space-size=2'];
  const child = fork(await compiledScript(script), [upstream], { execArgv });
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

  function exchange(path: string, { body, headers, account = 'usr_1' }: Sent): Promise<Omit<Outcome, keyof Cost>> {
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
        resolve({ status: res.statusCode ?? 0, headers: res.headers, text, code });
      });
      sending.end(body);
    });
  }

  async function measure<Result>(work: () => Promise<Result>): Promise<Cost & { readonly result: Result }> {
    const before = await measures();
    const result = await work();
    const { cpuMs, heldMs, peakBytes } = await measures();
    return { result, cpuMs, heldMs, grownBytes: Math.max(0, peakBytes - before.peakBytes) };
  }

  return {
    port,
    process: child,
    measures,
    measure,
    async slowness() {
      const answer = once(child, 'message') as Promise<[number]>;
      child.send('reference');
      const [loopMs] = await answer;
      return Math.max(1, loopMs / referenceMs);
    },
    async send(path, sent) {
      const isLarge = sent.body.length > 100_000;
      await measures(isLarge);
      const { result, ...cost } = await measure(() => exchange(path, sent));
      return { ...result, ...cost };
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
