import { request as httpRequest } from 'node:http';
import { createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { UsageRecord } from '../../../src/index.ts';
import { listenOn } from '../../support/listen.ts';
import { measureAgain } from '../../support/measure-again.ts';
import { callerKey, type ModelServer, startModelServer } from '../../support/model-server.ts';
import { until } from '../../support/until.ts';
import { hang, inTurn, json, type Script, ScriptedUpstream, stall } from '../../support/upstream.ts';

const event = 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n';
const jsonHeaders = { 'content-type': 'application/json' };

/** Writes as long as anybody takes it. */
const flood: Script = (res) => {
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  const more = (): void => {
    while (!res.destroyed && res.write(event.repeat(1_000)));
    if (!res.destroyed) res.once('drain', more);
  };
  more();
};

/** When a client leaves. */
interface Phase {
  name: string;
  /** What the upstream does until then; made anew for every call. */
  script: () => Script;
  stream?: boolean;
  /** Upstream calls until then. */
  calls?: number;
}

/** The upstream is at work: it is told, and what it did is metered. */
const working: Phase[] = [
  { name: 'before the first byte', script: () => hang },
  { name: 'before the first byte of a stream', script: () => hang, stream: true },
  { name: 'between the events of a stream', script: () => stall(event), stream: true },
  { name: 'inside an event', script: () => stall(event.slice(0, 20)), stream: true },
  { name: 'while a stream is held back because nobody reads it', script: () => flood, stream: true },
  { name: 'inside a short answer', script: () => stall('{"a":', jsonHeaders) },
  { name: 'inside a long answer', script: () => stall(`{"a":"${'x'.repeat(400_000)}`, jsonHeaders) },
  {
    name: 'during the second try',
    script: () => inTurn(json(429, {}, { 'retry-after-ms': '1' }), hang),
    stream: true,
    calls: 2,
  },
];

/** The upstream has refused: nothing is metered. */
const refused: Phase[] = [
  { name: 'while a retry waits', script: () => json(429, {}, { 'retry-after-ms': '1900' }) },
  {
    name: 'while a retry of a stream waits, behind an error that never ends',
    script: () => stall('{"error":', { ...jsonHeaders, 'retry-after-ms': '1900' }, 429),
    stream: true,
  },
  { name: 'inside an error', script: () => stall('{"error":', jsonHeaders, 422) },
];

/** Milliseconds within which a call is over for everybody. */
const atOnce = 50;

/** The times of a series of calls, of several where a busy machine delayed the first. */
const measured = <Times extends Readonly<Record<string, number>>>(series: () => Promise<Times>): Promise<Times> =>
  measureAgain(series, (times) => !Object.values(times).some((time) => time >= atOnce));

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN;

describe('a client that disconnects from a model call', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  let hook: () => Promise<undefined>;
  /** When the gateway saw the client go, and when the call was over for those who had let it through. */
  let left: number;
  let settled: { at: number; how: string } | undefined;
  let records: UsageRecord[];

  beforeEach(async () => {
    settled = undefined;
    records = [];
    hook = async () => undefined;
    upstream = await ScriptedUpstream.start();
    await start(upstream.baseUrl);
  });

  afterEach(async () => {
    await server.close();
    await upstream.close();
  });

  async function start(baseUrl: string): Promise<void> {
    const settle = (how: string): void => {
      settled = { at: performance.now(), how };
    };
    server = await startModelServer(
      {
        // a call that kept its place would refuse the next one
        upstreams: [{ name: 'one', baseUrl, maxConcurrency: 1 }],
        hooks: { onRequest: () => hook(), onUsage: (record) => void records.push(record) },
        admissionChecks: [() => ({ closed: () => settle('closed'), dropped: () => settle('dropped') })],
      },
      [
        (_req, res, next) => {
          res.once('close', () => {
            left = performance.now();
          });
          next();
        },
      ],
    );
  }

  /** Makes a call, and leaves it when it has `reached` what it should, and the gateway is at rest. @returns milliseconds until it was over */
  async function callAndLeave(stream: boolean, reached: () => Promise<unknown>): Promise<number> {
    settled = undefined;
    const call = httpRequest(`${server.baseUrl}/chat/completions`, {
      method: 'POST',
      agent: false,
      headers: { authorization: `Bearer ${callerKey}`, ...jsonHeaders },
    });
    call.on('error', () => {});
    call.end(JSON.stringify({ model: 'm', stream, messages: [{ role: 'user', content: 'Hi' }] }));
    await reached();
    // shows that nothing happens
    await sleep(30);
    expect(settled).to.equal(undefined);
    call.destroy();
    await until(() => settled);
    return (settled as unknown as { at: number }).at - left;
  }

  /** Leaves five calls in one phase. @returns the usual time until the gateway was done with one, and until the upstream knew */
  async function leaveInPhase({ script, stream = false, calls = 1 }: Phase, how: 'closed' | 'dropped') {
    const here: number[] = [];
    const there: number[] = [];
    records = [];
    for (let i = 0; i < 5; i += 1) {
      upstream.script = script();
      upstream.requests.length = 0;
      here.push(await callAndLeave(stream, () => upstream.received(calls)));
      expect(settled?.how).to.equal(how);
      if (!(await upstream.last.closed)) there.push(performance.now() - left);
      expect(upstream.requests).to.have.lengthOf(calls);
    }
    return { here: median(here), there: median(there) };
  }

  for (const phase of working) {
    it(`${phase.name} aborts the upstream within 50 ms, and is metered`, async () => {
      const { here, there } = await measured(() => leaveInPhase(phase, 'closed'));
      expect(here).to.be.below(atOnce);
      expect(there).to.be.below(atOnce);
      expect(records.map(({ ending }) => ending)).to.deep.equal(Array(5).fill('client_left'));
    });
  }

  for (const phase of refused) {
    it(`${phase.name} ends the call within 50 ms, and is charged nothing`, async () => {
      const { here, there } = await measured(() => leaveInPhase(phase, 'dropped'));
      expect(here).to.be.below(atOnce);
      // an error that had been answered in full leaves nothing to abort
      if (!Number.isNaN(there)) expect(there).to.be.below(atOnce);
      expect(records).to.deep.equal([]);
    });
  }

  it('while onRequest runs causes no call to an upstream, and is charged nothing', async () => {
    let checked: (() => void) | undefined;
    hook = () =>
      new Promise((resolve) => {
        checked = () => resolve(undefined);
      });
    left = 0;
    const over = callAndLeave(false, () => until(() => checked));
    await until(() => left > 0);
    checked?.();
    await over;
    expect(settled?.how).to.equal('dropped');
    expect([upstream.requests.length, upstream.connections, records.length]).to.deep.equal([0, 0, 0]);
  });

  it('while the connection is being made ends the call within 50 ms', async () => {
    // takes connections and says nothing, so that a TLS handshake never ends
    const sockets = new Set<Socket>();
    const mute = createServer((socket) => sockets.add(socket.on('error', () => {})));
    const port = await listenOn(mute);
    try {
      await server.close();
      await start(`https://127.0.0.1:${port}/v1`);
      const { here } = await measured(async () => {
        const times: number[] = [];
        for (let i = 0; i < 5; i += 1) {
          const before = sockets.size;
          times.push(await callAndLeave(false, () => until(() => sockets.size > before)));
        }
        return { here: median(times) };
      });
      expect(here).to.be.below(atOnce);
      expect([settled?.how, records.length]).to.deep.equal(['dropped', 0]);
    } finally {
      for (const socket of sockets) socket.destroy();
      mute.close();
    }
  });
});
