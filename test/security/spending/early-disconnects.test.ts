import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { RequestHandler } from 'express';
import type { UsageRecord } from '../../../src/index.ts';
import { HeldClock } from '../../support/clock.ts';
import { callerKey, startModelServer } from '../../support/model-server.ts';
import { until } from '../../support/until.ts';
import { chunks, hang, inTurn, json, type Script, ScriptedUpstream } from '../../support/upstream.ts';

const event = (data: object) => `data: ${JSON.stringify(data)}\n\n`;
const delta = (text: string, index = 0) =>
  event({ choices: [{ index, delta: { content: text }, finish_reason: null }] });
const finish = (index = 0) => event({ choices: [{ index, delta: {}, finish_reason: 'stop' }] });
const usage = { prompt_tokens: 7, completion_tokens: 5_000, total_tokens: 5_007 };
const usageChunk = event({ choices: [], usage });
const done = 'data: [DONE]\n\n';
const image = (type: string) =>
  event({ type: `image_generation.${type}`, b64_json: 'AA', ...(type === 'completed' && { usage }) });

/** Of the call under way: resolves when the gateway has seen that the client disconnected. */
let clientLeft: Promise<unknown>;
const untilLeft = () => clientLeft;

/** Notes when the client of a call leaves. */
const watchClient: RequestHandler = (_req, res, next) => {
  clientLeft = once(res, 'close');
  next();
};

/** Sends each part, after so many milliseconds or what it waits for. */
const timed =
  (...parts: readonly (string | number | typeof untilLeft)[]): Script =>
  async (res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const part of parts) {
      // the upstream answers slowly on purpose
      if (typeof part === 'number') await sleep(part);
      else if (typeof part === 'function') await part();
      else if (!res.destroyed) res.write(part);
    }
    if (parts.at(-1) === done) res.end();
  };

interface Left {
  readonly record: UsageRecord;
  /** From the client's leaving to the end of the upstream's call, and what of it the test has let pass. Milliseconds. */
  readonly waited: number;
  readonly turned: number;
  /** Whether the upstream could finish. */
  readonly finished: boolean;
  readonly requests: number;
  /** From the call to its record: a model writes 100 tokens in a second at most. Milliseconds. */
  readonly took: number;
}

interface Leaving {
  readonly script: Script;
  readonly path?: string;
  readonly body?: object;
  readonly abortOnDisconnect?: boolean;
  /** When the client leaves: when it has read this, or so many milliseconds after the upstream was called. */
  readonly after: string | number;
  /** Whether time passes for the gateway when the client has left: if not, the upstream's call has to end without. @default false */
  readonly waits?: boolean;
}

/** For so long a gateway waits for the usage. Milliseconds. */
const usageGrace = 1_000;

/** Makes a call with a server and an upstream of its own, and leaves it. */
async function leave({
  script,
  path = '/chat/completions',
  body,
  abortOnDisconnect = true,
  after,
  waits = false,
}: Leaving): Promise<Left> {
  const upstream = await ScriptedUpstream.start();
  upstream.script = script;
  let tell: (record: UsageRecord) => void;
  const told = new Promise<UsageRecord>((resolve) => {
    tell = resolve;
  });
  const server = await startModelServer(
    {
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
      hooks: { onUsage: (record) => tell(record) },
      abortOnDisconnect,
    },
    [watchClient],
  );
  const clock = new HeldClock(usageGrace);
  try {
    const startedAt = performance.now();
    const leaving = new AbortController();
    const response = fetch(server.baseUrl + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${callerKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hi' }], prompt: 'Hi', ...body }),
      signal: leaving.signal,
    });
    response.catch(() => {});
    await upstream.received(1);
    // how long the client stays
    if (typeof after === 'number') await sleep(after);
    else {
      const reader = (await response).body?.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = ''; !text.includes(after); ) {
        const part = await reader?.read();
        if (!part || part.done) throw new Error(`the answer ended before ${after}: ${text.slice(-200)}`);
        text += part.value;
      }
    }
    leaving.abort();
    let isClosed = false;
    const finished = upstream.last.closed.finally(() => {
      isClosed = true;
    });
    const leftAt = performance.now();
    const step = usageGrace / 20;
    let turned = 0;
    await until(() => {
      if (waits) turned += step;
      if (waits) clock.turn(step);
      return isClosed;
    });
    const waited = performance.now() - leftAt;
    const record = await told;
    const took = performance.now() - startedAt;
    return { record, waited, turned, finished: await finished, requests: upstream.requests.length, took };
  } finally {
    clock.release();
    await server.close();
    await upstream.close();
  }
}

const stream = { stream: true };
const short = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}';

describe('a client that disconnects to pay less', () => {
  it('is charged the reported usage when it disconnects after the last text and before the usage', async () => {
    const { record } = await leave({
      body: stream,
      script: timed(delta('a'), finish(), untilLeft, usageChunk, done),
      after: short,
    });
    expect(record).to.include({ outputTokens: 5_000, inputTokens: 7, estimated: false, ending: 'client_left' });
  });
  it('pays for what it saw when no usage comes within a second, and the upstream is aborted then', async () => {
    const text = 'word '.repeat(600);
    const { record, waited, turned, finished } = await leave({
      body: stream,
      script: timed(delta(text), finish()),
      after: short,
      waits: true,
    });
    expect(record).to.include({ estimated: true, ending: 'client_left' });
    expect(record.outputTokens).to.be.at.least(text.length / 3);
    expect(finished).to.equal(false);
    expect(waited).to.be.at.least(usageGrace);
    expect(turned).to.be.below(3 * usageGrace);
  });
  it('is charged the reported usage when all of several answers have come', async () => {
    const { record } = await leave({
      body: { ...stream, n: 2 },
      script: timed(delta('a'), finish(0), delta('b', 1), finish(1), untilLeft, usageChunk, done),
      after: '"index":1,"delta":{},"finish_reason":"stop"',
    });
    expect(record).to.include({ outputTokens: 5_000, estimated: false });
  });
  it('has its upstream aborted at once when one of several answers is not complete', async () => {
    const { record } = await leave({
      body: { ...stream, n: 2 },
      script: timed(delta('a'), finish(0)),
      after: short,
    });
    expect(record).to.include({ estimated: true, ending: 'client_left' });
  });
  it('pays for reasoning that is shown, and for tool calls, by their length', async () => {
    const thought = 'thinking '.repeat(200);
    const call = [{ index: 0, id: 'call_1', type: 'function', function: { name: 'f', arguments: 'x'.repeat(900) } }];
    // the limit, too: the silence of a busy machine adds nothing
    const tokens = Math.ceil((thought.length + 'f'.length + 900) / 3);
    const { record } = await leave({
      body: { ...stream, max_completion_tokens: tokens },
      script: timed(
        event({ choices: [{ index: 0, delta: { role: 'assistant', reasoning_content: thought } }] }),
        event({ choices: [{ index: 0, delta: { tool_calls: call } }] }),
      ),
      after: 'xxx"',
    });
    expect(record.outputTokens).to.equal(tokens);
  });
  it('pays for the time in which a model reasons and shows nothing, within the limit of its request', async () => {
    const script = timed(1_200, delta('a'));
    const unlimited = await leave({ body: stream, script, after: 'content' });
    expect(unlimited.record.outputTokens).to.be.within(120, 1 + unlimited.took / 10);
    const limited = await leave({ body: { ...stream, max_completion_tokens: 50 }, script, after: 'content' });
    expect(limited.record.outputTokens).to.equal(50);
  });
  it('pays for the time that its upstream has worked on an answer without a stream', async () => {
    const { record, took } = await leave({ script: hang, after: 1_200 });
    expect(record).to.include({ estimated: true, ending: 'client_left' });
    expect(record.outputTokens).to.be.within(120, took / 10);
  });
  it('pays for the text of a completion that it saw', async () => {
    const text = 'ü'.repeat(300);
    const { record } = await leave({
      path: '/completions',
      // the silence of a busy machine adds nothing
      body: { ...stream, max_tokens: 200 },
      script: timed(event({ choices: [{ index: 0, text, finish_reason: null }] })),
      after: 'ü"',
    });
    expect(record.outputTokens).to.equal(200);
  });
  it('pays for the images it asked for when it disconnects before they come', async () => {
    const { record } = await leave({ path: '/images/generations', body: { n: 3 }, script: hang, after: 20 });
    expect(record).to.include({ images: 3, estimated: true, ending: 'client_left' });
  });
  it('pays for an image it asked for when it disconnects after a preview, and its upstream is aborted at once', async () => {
    const { record } = await leave({
      path: '/images/generations',
      body: stream,
      script: timed(image('partial_image')),
      after: 'partial_image',
    });
    expect(record).to.include({ images: 1, estimated: true });
  });
  it('is charged the reported usage of an image when it disconnects inside the event that has it', async () => {
    const whole = image('completed');
    const cut = whole.indexOf('AA');
    const { record } = await leave({
      path: '/images/generations',
      body: stream,
      // beyond what is held until it is whole
      script: timed(whole.slice(0, cut) + 'A'.repeat(40_000), untilLeft, whole.slice(cut), done),
      after: 'AAAA',
    });
    expect(record).to.include({ images: 1, inputTokens: 7, outputTokens: 5_000, estimated: false });
  });
  it('is charged the whole usage where calls run to their end: a stream', async () => {
    const { record, finished } = await leave({
      body: stream,
      abortOnDisconnect: false,
      script: timed(delta('a'), untilLeft, delta('b'), finish(), usageChunk, done),
      after: 'content',
    });
    expect(finished).to.equal(true);
    expect(record).to.include({ outputTokens: 5_000, estimated: false, ending: 'client_left' });
  });
  it('is charged the whole usage where calls run to their end: an answer without a stream', async () => {
    const answer = { choices: [{ index: 0, message: { content: 'a' }, finish_reason: 'stop' }], usage };
    const { record, finished } = await leave({
      abortOnDisconnect: false,
      script: async (...exchange) => {
        await untilLeft();
        return json(200, answer)(...exchange);
      },
      after: 20,
    });
    expect(finished).to.equal(true);
    expect(record).to.include({ outputTokens: 5_000, estimated: false, ending: 'client_left' });
  });
  it('is charged the whole usage where calls run to their end: a large answer that nobody reads', async () => {
    const part = delta('x'.repeat(60_000));
    const { record, finished } = await leave({
      body: stream,
      abortOnDisconnect: false,
      script: chunks([...Array(200).fill(part), finish(), usageChunk, done]),
      after: 'content',
    });
    expect(finished).to.equal(true);
    expect(record).to.include({ outputTokens: 5_000, estimated: false, ending: 'client_left' });
  });

  it('causes no retry where calls run to their end', async () => {
    const upstream = await ScriptedUpstream.start();
    upstream.script = inTurn(
      async (...exchange) => {
        await untilLeft();
        return json(500, {}, { 'retry-after-ms': '1' })(...exchange);
      },
      json(200, { choices: [{}] }),
    );
    const server = await startModelServer(
      { upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }], abortOnDisconnect: false },
      [watchClient],
    );
    const leaving = new AbortController();
    const call = server
      .client()
      .chat.completions.create({ model: 'm', messages: [{ role: 'user', content: 'Hi' }] }, { signal: leaving.signal });
    call.catch(() => {});
    await upstream.received(1);
    leaving.abort();
    await upstream.last.closed;
    // shows that no retry is made
    await sleep(200);
    expect(upstream.requests).to.have.length(1);
    await server.close();
    await upstream.close();
  });

  it('pays for each image that is answered as a URL when it stays', async () => {
    const upstream = await ScriptedUpstream.start();
    upstream.script = json(200, { data: [{ url: 'https://images.example/1' }, { url: 'https://images.example/2' }] });
    const records: UsageRecord[] = [];
    const server = await startModelServer({
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
      hooks: { onUsage: (record) => void records.push(record) },
    });
    await server.client().images.generate({ model: 'm', prompt: 'Hi', n: 2 });
    expect(records[0]).to.include({ images: 2, ending: 'complete' });
    await server.close();
    await upstream.close();
  });
});
