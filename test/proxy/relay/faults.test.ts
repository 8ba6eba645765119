import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import OpenAI from 'openai';
import type { UpstreamTimeouts } from '../../../src/index.ts';
import { whileClockStands } from '../../support/clock.ts';
import { callerKey, type ModelServer, startModelServer } from '../../support/model-server.ts';
import { until } from '../../support/until.ts';
import {
  chunks,
  events,
  hang,
  inTurn,
  json,
  raw,
  reset,
  type Script,
  ScriptedUpstream,
  stall,
} from '../../support/upstream.ts';

const whole = '{"choices":[{}]}';
const jsonHeaders = { 'content-type': 'application/json' };

/** What the client sees: a status and an error code, or how the body ended. */
interface Row {
  name: string;
  script: Script;
  status: number | 'cut';
  code?: string;
  calls: number;
  stream?: boolean;
  /** The time limit that it runs into. No other is short: the process may be busy. */
  limit?: 'firstByte' | 'betweenChunks';
}

const table: Row[] = [
  {
    name: 'hangs before its head',
    script: hang,
    status: 504,
    code: 'upstream_timeout',
    calls: 1,
    limit: 'firstByte',
  },
  {
    name: 'hangs before its head, streaming',
    script: hang,
    status: 504,
    code: 'upstream_timeout',
    calls: 1,
    stream: true,
    limit: 'firstByte',
  },
  { name: 'resets at once', script: reset(), status: 502, code: 'upstream_disconnected', calls: 3 },
  {
    name: 'answers half a body and hangs',
    script: stall('{"a":', jsonHeaders),
    status: 504,
    code: 'upstream_timeout',
    calls: 1,
    limit: 'betweenChunks',
  },
  {
    name: 'answers half a body and resets',
    script: reset('{"a":', jsonHeaders),
    status: 502,
    code: 'upstream_disconnected',
    calls: 1,
  },
  {
    name: 'answers a large body and hangs',
    script: stall(`{"a":"${'x'.repeat(300_000)}`, jsonHeaders),
    status: 'cut',
    calls: 1,
    limit: 'betweenChunks',
  },
  {
    name: 'answers a large body and resets',
    script: reset(`{"a":"${'x'.repeat(300_000)}`, jsonHeaders),
    status: 'cut',
    calls: 1,
  },
  {
    name: 'hangs in the middle of a stream',
    script: stall('data: {"choices":[{}]}\n\n'),
    status: 200,
    code: 'upstream_timeout',
    calls: 1,
    stream: true,
    limit: 'betweenChunks',
  },
  {
    name: 'resets in the middle of a stream',
    script: reset('data: {"choices":[{}]}\n\n'),
    status: 200,
    code: 'upstream_disconnected',
    calls: 1,
    stream: true,
  },
  {
    name: 'resets in the middle of an event',
    script: reset('data: {"choices":[{}]}\n\ndata: {"b":'),
    status: 200,
    code: 'upstream_disconnected',
    calls: 1,
    stream: true,
  },
  {
    name: 'resets in the middle of a large event',
    script: reset(`data: {"choices":[{}]}\n\ndata: {"b":"${'x'.repeat(50_000)}`),
    status: 200,
    code: 'upstream_disconnected',
    calls: 1,
    stream: true,
  },
  {
    name: 'sends half a chunk',
    script: raw('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nff\r\n{"a"'),
    status: 502,
    code: 'upstream_disconnected',
    calls: 1,
  },
  {
    name: 'sends fewer bytes than its Content-Length',
    script: raw('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{}'),
    status: 502,
    code: 'upstream_disconnected',
    calls: 1,
  },
  {
    name: 'sends a head of 20 KB',
    script: raw(`HTTP/1.1 200 OK\r\nx-a: ${'a'.repeat(20_000)}\r\ncontent-length: 2\r\n\r\n{}`),
    status: 502,
    code: 'upstream_invalid_response',
    calls: 1,
  },
  {
    name: 'ends the lines of its head with LF alone',
    script: raw('HTTP/1.1 200 OK\ncontent-type: application/json\ncontent-length: 2\n\n{}'),
    status: 502,
    code: 'upstream_invalid_response',
    calls: 1,
  },
  {
    name: 'sends two lengths',
    script: raw('HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\n{}'),
    status: 502,
    code: 'upstream_invalid_response',
    calls: 1,
  },
  {
    name: 'sends JSON that does not parse',
    script: json(200, Buffer.from('{"a":')),
    status: 502,
    code: 'upstream_invalid_response',
    calls: 1,
  },
  {
    name: 'sends HTML',
    script: json(200, Buffer.from('<html>'), { 'content-type': 'text/html' }),
    status: 502,
    code: 'upstream_invalid_response',
    calls: 1,
  },
  {
    name: 'sends an empty body',
    script: json(200, Buffer.alloc(0)),
    status: 502,
    code: 'upstream_invalid_response',
    calls: 1,
  },
  {
    name: 'sends a large body that is not JSON',
    script: json(200, Buffer.alloc(300_000, 'x')),
    status: 502,
    code: 'upstream_invalid_response',
    calls: 1,
  },
  {
    name: 'sends an error page',
    script: json(404, Buffer.from('<html>10.0.0.7</html>'), { 'content-type': 'text/html' }),
    status: 502,
    code: 'upstream_invalid_response',
    calls: 1,
  },
  {
    name: 'sends an error page with 429',
    script: json(429, Buffer.from('<html>10.0.0.7</html>'), { 'content-type': 'text/html', 'retry-after': '60' }),
    status: 429,
    code: 'upstream_rate_limited',
    calls: 1,
  },
  {
    name: 'answers 429 and nothing else',
    script: json(429, Buffer.alloc(0), { 'retry-after': '60' }),
    status: 429,
    code: 'upstream_rate_limited',
    calls: 1,
  },
  {
    name: 'redirects',
    script: json(302, {}, { location: 'http://127.0.0.1:1/' }),
    status: 502,
    code: 'upstream_invalid_response',
    calls: 1,
  },
  {
    name: 'claims gzip but sends plain bytes',
    script: json(200, Buffer.from(whole), { 'content-encoding': 'gzip' }),
    status: 502,
    code: 'upstream_invalid_response',
    calls: 1,
  },
  { name: 'sends no HTTP', script: raw('SSH-2.0\r\n'), status: 502, code: 'upstream_invalid_response', calls: 1 },
  {
    name: 'sends headers that are too large',
    script: raw(`HTTP/1.1 200 OK\r\nx: ${'x'.repeat(100_000)}\r\n\r\n`),
    status: 502,
    code: 'upstream_invalid_response',
    calls: 1,
  },
  {
    name: 'refuses the gateway with 401',
    script: json(401, { error: {} }),
    status: 502,
    code: 'upstream_auth_failed',
    calls: 1,
  },
  {
    name: 'refuses the gateway with 403',
    script: json(403, { error: {} }),
    status: 502,
    code: 'upstream_auth_failed',
    calls: 1,
  },
  { name: 'answers 400', script: json(400, { error: { code: 'theirs' } }), status: 400, code: 'theirs', calls: 1 },
  {
    name: 'answers 500 and then 200',
    script: inTurn(json(500, {}), json(200, Buffer.from(whole))),
    status: 200,
    calls: 2,
  },
  {
    name: 'answers 500 again and again',
    script: json(500, { error: { code: 'theirs' } }),
    status: 500,
    code: 'theirs',
    calls: 3,
  },
  {
    name: 'answers 500 and says not to retry',
    script: json(500, { error: { code: 'theirs' } }, { 'x-should-retry': 'false' }),
    status: 500,
    code: 'theirs',
    calls: 1,
  },
  {
    name: 'answers 429 with a short retry-after and then 200',
    script: inTurn(json(429, {}, { 'retry-after-ms': '20' }), json(200, Buffer.from(whole))),
    status: 200,
    calls: 2,
  },
  {
    name: 'answers 429 with a long retry-after',
    script: json(429, { error: { code: 'theirs' } }, { 'retry-after': '60' }),
    status: 429,
    code: 'theirs',
    calls: 1,
  },
  { name: 'resets and then answers', script: inTurn(reset(), json(200, Buffer.from(whole))), status: 200, calls: 2 },
  {
    name: 'answers 500 and then a stream',
    script: inTurn(json(503, {}), events([{ choices: [{}] }])),
    status: 200,
    calls: 2,
    stream: true,
  },
];

describe('an upstream that', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;

  beforeEach(async () => {
    upstream = await ScriptedUpstream.start();
  });

  async function start(timeouts: UpstreamTimeouts = {}): Promise<void> {
    server = await startModelServer({
      upstreams: [{ name: 'faulty', baseUrl: upstream.baseUrl, maxConcurrency: 1, timeouts }],
      retry: { maxWait: 1_000 },
    });
  }

  afterEach(async () => {
    await server.close();
    await upstream.close();
  });

  async function ask(stream = false, headers: Record<string, string> = { 'accept-encoding': 'identity' }) {
    const response = await fetch(`${server.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${callerKey}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hi' }], ...(stream && { stream }) }),
    });
    const text = await response.text().catch(() => 'cut');
    return { status: text === 'cut' ? ('cut' as const) : response.status, text, headers: response.headers };
  }

  /** The error of an answer: its body, or the last event of a stream. */
  function codeOf(text: string): string | undefined {
    const last = text.startsWith('data:') ? (text.trimEnd().split('\n\n').at(-1) ?? '').slice(6) : text;
    return last.startsWith('{') ? JSON.parse(last).error?.code : undefined;
  }

  for (const { name, script, status, code, calls, stream, limit } of table) {
    it(`${name}: the client sees ${status} ${code ?? ''} after ${calls} ${calls === 1 ? 'call' : 'calls'}`, async () => {
      await start(limit && { [limit]: 300 });
      upstream.script = script;
      const answer = await ask(stream);
      expect(answer.status).to.equal(status);
      if (status !== 'cut') expect(codeOf(answer.text)).to.equal(code);
      if (stream && status === 200 && code) expect(answer.text).not.to.include('[DONE]');
      expect(answer.text).not.to.match(/10\.0\.0\.7|127\.0\.0\.1/);
      if (status !== 'cut') expect(answer.headers.get('x-request-id')).to.match(/^req_/);
      expect(upstream.requests).to.have.lengthOf(calls);
      // every socket that did not answer properly is gone; at most one is kept for the next call
      await until(() => upstream.sockets <= 1);
      expect(upstream.sockets).to.be.at.most(1);
      // the call has left its place to the next one
      upstream.script = json(200, { choices: [{}] });
      expect((await ask()).status).to.equal(200);
    });
  }

  it('refuses a request in plain text is passed on as it answers', async () => {
    await start();
    const text = 'Failed to deserialize the JSON body into the target type: messages[0]: é\n';
    upstream.script = json(422, Buffer.from(text), { 'content-type': 'text/plain; charset=utf-8' });
    const answer = await ask();
    expect([answer.status, answer.text]).to.deep.equal([422, text]);
    expect(answer.headers.get('content-type')).to.equal('text/plain; charset=utf-8');
    const thrown = await server
      .client()
      .chat.completions.create({ model: 'm', messages: [{ role: 'user', content: 'Hi' }] })
      .then(
        () => undefined,
        (error: unknown) => error,
      );
    expect(thrown).to.be.instanceOf(OpenAI.UnprocessableEntityError).with.property('message').include('messages[0]');
  });

  for (const status of [429, 503]) {
    it(`says when to try again, in a page with ${status}, is heard by the client`, async () => {
      await start();
      upstream.script = json(status, Buffer.from('<html>'), { 'content-type': 'text/html', 'retry-after': '60' });
      const { headers } = await ask();
      expect([headers.get('retry-after'), headers.get('x-should-retry')]).to.deep.equal(['60', null]);
    });
  }

  it('never ends its body is cut off at the total time limit', async () => {
    await start({ total: 2_000 });
    upstream.script = async (res) => {
      res.writeHead(200, jsonHeaders);
      res.write('{"a":"');
      const chunk = Buffer.alloc(64 * 1024, 'x');
      while (!res.destroyed) {
        if (!res.write(chunk)) await new Promise((resolve) => setTimeout(resolve, 5));
      }
    };
    const started = performance.now();
    const response = await fetch(`${server.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${callerKey}`, 'content-type': 'application/json' },
      body: '{"model":"m","messages":[{"role":"user","content":"Hi"}]}',
    });
    let cut = false;
    try {
      // the client reads slowly on purpose
      for await (const _ of response.body as unknown as AsyncIterable<Uint8Array>) await sleep(1);
    } catch {
      cut = true;
    }
    expect(cut).to.equal(true);
    expect(performance.now() - started).to.be.within(1_900, 10_000);
  });

  it('sends its chunks slowly, but within the limit, is not cut off', async () => {
    await start({ betweenChunks: 250 });
    upstream.script = chunks(['data: {"choices":[{}]}\n\n', 'data: {"a":2}\n\n', 'data: [DONE]\n\n'], {}, 150);
    expect((await ask(true)).text).to.include('[DONE]');
  });

  it('fails again and again gets no calls for a while, and is then tried again', async () => {
    await start();
    const at = Math.ceil(performance.now());
    await whileClockStands(
      async () => {
        upstream.script = json(500, { error: { code: 'theirs' } });
        await ask();
        await ask();
        expect(upstream.requests.length).to.equal(5);
        const left = await Promise.all(Array.from({ length: 20 }, () => ask()));
        const kept = left.filter(({ status, text }) => status === 502 && codeOf(text) === 'upstream_unreachable');
        expect(kept.length).to.equal(20);
        expect(upstream.requests.length).to.equal(5);
      },
      performance,
      at,
    );
    upstream.script = json(200, Buffer.from(whole));
    // when the breaker lets a call try
    await whileClockStands(async () => expect((await ask()).status).to.equal(200), performance, at + 1_001);
  });
});
