import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { GatewayError, type UpstreamOptions, type UsageRecord } from '../../../src/index.ts';
import { Deadline } from '../../../src/outbound/deadline.ts';
import { outboundError } from '../../../src/outbound/outbound-error.ts';
import type { ModelObserver } from '../../../src/proxy/hooks.ts';
import { createRetryPolicy, tryUpstreams } from '../../../src/proxy/retry.ts';
import { type Candidate, createUpstream, modelMatcher, orderUpstreams } from '../../../src/proxy/upstream.ts';
import { CallPlace } from '../../../src/proxy/upstream-state.ts';
import { HeldClock, whileClockStands } from '../../support/clock.ts';
import { listenOn, nobody } from '../../support/listen.ts';
import { silentLogger } from '../../support/logger.ts';
import type { TestProxyOptions } from '../../support/model-proxy.ts';
import { callerKey, limitedKey, type ModelServer, startModelServer } from '../../support/model-server.ts';
import { until } from '../../support/until.ts';
import { chunks, events, hang, inTurn, json, reset, ScriptedUpstream, stall } from '../../support/upstream.ts';

describe('the choice of an upstream', () => {
  const one = (name: string, weight = 1, priority = 0, models = ['*']): Candidate & { name: string } => ({
    name,
    weight,
    priority,
    serves: modelMatcher(models),
  });
  const names = (chosen: { name: string }[]) => chosen.map(({ name }) => name).join(' ');

  it('takes the upstreams that serve the model, by id or by pattern', () => {
    const upstreams = [one('a', 1, 0, ['gpt-*']), one('b', 1, 1, ['gpt-5', 'x']), one('c', 1, 2, ['vendor/*:free'])];
    expect(names(orderUpstreams(upstreams, 'gpt-5', () => 0))).to.equal('a b');
    expect(names(orderUpstreams(upstreams, 'gpt-5-mini', () => 0))).to.equal('a');
    expect(names(orderUpstreams(upstreams, 'vendor/m.1:free', () => 0))).to.equal('c');
    expect(names(orderUpstreams(upstreams, 'vendor/m.1:paid', () => 0))).to.equal('');
    expect(names(orderUpstreams(upstreams, undefined, () => 0))).to.equal('a b c');
  });

  it('orders upstreams by priority first, then by weight', () => {
    const upstreams = [one('late', 9, 1), one('small', 1), one('large', 3)];
    expect(names(orderUpstreams(upstreams, 'm', () => 0))).to.equal('small large late');
    expect(names(orderUpstreams(upstreams, 'm', () => 0.26))).to.equal('large small late');
    let small = 0;
    for (let i = 0; i < 1_000; i += 1)
      if (orderUpstreams(upstreams, 'm', () => i / 1_000)[0]?.name === 'small') small += 1;
    expect(small).to.equal(250);
  });

  it('puts an upstream of weight 0 last among those of its priority', () => {
    for (const point of [0, 0.5, 0.999]) {
      expect(names(orderUpstreams([one('spare', 0), one('a'), one('b')], 'm', () => point)).endsWith('spare')).to.equal(
        true,
      );
    }
  });
});

describe('the decision to retry', () => {
  type Code = Parameters<typeof outboundError>[0];
  type Result = Code | { readonly status: number; readonly headers?: Readonly<Record<string, string>> };

  /**
   * How often the one upstream of a call is tried that gives these results in turn, the last one again and again.
   * @param endsWait whether the call ends as soon as it waits for another try
   */
  async function tries(results: readonly Result[], maxWait: number, attempts = 2, endsWait = false) {
    const upstream = createUpstream({ name: 'a', baseUrl: nobody });
    const deadline = new Deadline(60_000);
    const at: number[] = [];
    const send = async () => {
      const result = results[Math.min(at.length, results.length - 1)] as Result;
      at.push(performance.now());
      if (endsWait) setImmediate(() => deadline.abort('enough'));
      if (typeof result === 'string') throw outboundError(result);
      return { headers: {}, ...result, data: { destroy() {} } };
    };
    const call = { userId: 'usr_1', order: [upstream], deadline, place: new CallPlace('usr_1') };
    const ending = await tryUpstreams(call, send, createRetryPolicy({ attempts, maxWait })).then(
      ({ response }) => response.status,
      ({ code }: GatewayError) => code,
    );
    deadline.release();
    await upstream.close();
    return { count: at.length, ending, at };
  }

  /** Whether another try follows a result at once; where the upstream says nothing of a wait, soon. */
  async function isRetried(result: Result): Promise<boolean> {
    const asked =
      typeof result === 'string' ? result : { ...result, headers: { 'retry-after-ms': '0', ...result.headers } };
    return (await tries([asked, { status: 200 }], 1_000)).count === 2;
  }

  it('is yes for connection errors, 408, 409, 429 and 5xx only', async () => {
    for (const status of [408, 409, 429, 500, 502, 503, 504, 529])
      expect(await isRetried({ status }), String(status)).to.equal(true);
    for (const status of [200, 302, 400, 401, 403, 404, 422])
      expect(await isRetried({ status }), String(status)).to.equal(false);
    for (const code of ['connect_refused', 'reset', 'dns_failed', 'connect_timeout', 'tls_failed'] as const) {
      expect(await isRetried(code), code).to.equal(true);
    }
    for (const code of ['timeout', 'aborted', 'invalid_response', 'closed'] as const) {
      expect(await isRetried(code), code).to.equal(false);
    }
  });

  it('follows the header x-should-retry of the upstream', async () => {
    expect(await isRetried({ status: 400, headers: { 'x-should-retry': 'true' } })).to.equal(true);
    expect(await isRetried({ status: 503, headers: { 'x-should-retry': 'false' } })).to.equal(false);
  });

  /** Whether a call that may wait so long waits for another try. Milliseconds. */
  async function waits(headers: Readonly<Record<string, string>>, maxWait: number): Promise<boolean> {
    const asked = () => tries([{ status: 500, headers }], maxWait, 2, true);
    const { count, ending } = await whileClockStands(asked, performance, Math.ceil(performance.now()));
    expect(count).to.equal(1);
    return ending === 'upstream_timeout';
  }

  it('waits as long as the upstream asks, else longer each time', async () => {
    await whileClockStands(async () => {
      const inThreeSeconds = new Date(Date.now() + 3_000).toUTCString();
      for (const [headers, shorter, longer] of [
        // a date has no parts of a second
        [{ 'retry-after': inThreeSeconds }, 1_000, 3_000],
        [{ 'retry-after-ms': '1500', 'retry-after': '9' }, 1_450, 1_500],
        [{ 'retry-after': '2' }, 1_950, 2_000],
        [{ 'retry-after': 'soon' }, 40, 100],
      ] as const) {
        expect(await waits(headers, shorter), `${JSON.stringify(headers)} ${shorter}`).to.equal(false);
        expect(await waits(headers, longer), `${JSON.stringify(headers)} ${longer}`).to.equal(true);
      }
    });
    const { random } = Math;
    Math.random = () => 1;
    try {
      const { count, at } = await tries([{ status: 500 }], 700, 5);
      expect(count, '100, 200 and 400 ms, and no time for 800').to.equal(4);
      // a timer counts whole milliseconds of a clock that may itself be one behind
      for (const [i, wait] of [100, 200, 400].entries())
        expect((at[i + 1] ?? 0) - (at[i] ?? 0)).to.be.at.least(wait - 2);
      expect((await tries([{ status: 500 }], 650, 5)).count, 'no time for 400 ms').to.equal(3);
    } finally {
      Math.random = random;
    }
  });
});

describe('model calls over several upstreams', () => {
  let a: ScriptedUpstream;
  let b: ScriptedUpstream;
  let server: ModelServer | undefined;

  beforeEach(async () => {
    a = await ScriptedUpstream.start();
    b = await ScriptedUpstream.start();
  });

  afterEach(async () => {
    await server?.close();
    server = undefined;
    await a.close();
    await b.close();
  });

  const start = async (
    first: Partial<UpstreamOptions> = {},
    second: Partial<UpstreamOptions> = {},
    deps: Partial<TestProxyOptions> = {},
  ) => {
    server = await startModelServer({
      upstreams: [
        { name: 'a', baseUrl: a.baseUrl, ...first },
        { name: 'b', baseUrl: b.baseUrl, priority: 1, ...second },
      ],
      exposeUpstream: true,
      ...deps,
    });
    return server;
  };

  async function chat(model = 'm', extra: object = {}, headers: Record<string, string> = {}) {
    const response = await fetch(`${server?.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${callerKey}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }], ...extra }),
    });
    const text = await response.text();
    return { status: response.status, text, upstream: response.headers.get('x-gateway-upstream') };
  }

  it('go to the upstream that serves the model, under the name it has there', async () => {
    a.script = json(200, { from: 'a', choices: [{}] });
    b.script = json(200, { from: 'b', choices: [{}] });
    await start({ models: ['gpt-*'] }, { models: ['claude'], aliases: { fast: 'vendor/small' } });
    expect((await chat('gpt-5')).upstream).to.equal('a');
    expect((await chat('fast')).upstream).to.equal('b');
    expect(JSON.parse(b.last.body.toString()).model).to.equal('vendor/small');
    const unknown = await chat('nobody/has-it');
    expect(unknown.status).to.equal(404);
    expect(JSON.parse(unknown.text).error).to.include({ code: 'model_not_found', param: 'model' });
  });

  it('fall back at once when one is down, limited or failing', async () => {
    await start({}, {}, { retry: { maxWait: 0 } });
    b.script = json(200, { from: 'b', choices: [{}] });
    for (const script of [
      reset(),
      ...[408, 409, 500].map((status) => json(status, {})),
      json(429, {}, { 'retry-after': '60' }),
    ]) {
      a.script = script;
      expect((await chat()).upstream).to.equal('b');
    }
  });

  it('fall back when an upstream refuses connections', async () => {
    await start({ baseUrl: nobody });
    b.script = json(200, { from: 'b', choices: [{}] });
    expect((await chat()).upstream).to.equal('b');
    expect((await chat('m', { stream: true })).upstream).to.equal('b');
  });

  it('fall back, however many fail to connect at once', async () => {
    // accepts connections, and takes no part in TLS
    const mute = createServer();
    const port = await listenOn(mute);
    await start({ baseUrl: `https://127.0.0.1:${port}/v1`, timeouts: { connect: 500 } });
    b.script = json(200, { from: 'b', choices: [{}] });
    const answers = await Promise.all(Array.from({ length: 40 }, () => chat()));
    mute.close();
    expect(answers.filter(({ upstream }) => upstream !== 'b')).to.deep.equal([]);
  });

  it('retry the upstream that is ready first, and not before the time that it asked for', async () => {
    await start();
    a.script = json(429, {}, { 'retry-after-ms': '1900' });
    b.script = inTurn(json(500, {}), json(200, { from: 'b', choices: [{}] }));
    expect((await chat()).upstream).to.equal('b');
    expect([a.requests.length, b.requests.length]).to.deep.equal([1, 2]);

    const times: number[] = [];
    // one that waits for the other's time waits for good
    const clock = new HeldClock(1_800);
    a.script = (res, request) => {
      times.push(performance.now());
      const script =
        times.length === 1 ? json(429, {}, { 'retry-after-ms': '100' }) : json(200, { from: 'a', choices: [{}] });
      return script(res, request);
    };
    b.script = json(429, {}, { 'retry-after-ms': '1900' });
    try {
      expect((await chat()).upstream).to.equal('a');
    } finally {
      clock.release();
    }
    expect((times[1] ?? 0) - (times[0] ?? 0)).to.be.at.least(99);
  });

  it('do not fall back after the first byte, nor when the caller made the mistake', async () => {
    await start();
    b.script = json(200, { from: 'b', choices: [{}] });
    a.script = json(400, { error: { code: 'theirs' } });
    expect([(await chat()).status, b.requests.length]).to.deep.equal([400, 0]);
    a.script = reset('data: {"choices":[{}]}\n\n');
    expect((await chat('m', { stream: true })).text).to.include('upstream_disconnected');
    expect(b.requests).to.have.lengthOf(0);
  });

  it('skip an upstream after five failures', async () => {
    await start();
    a.script = json(500, {});
    b.script = json(200, { from: 'b', choices: [{}] });
    // it is tried again when a second is over
    await whileClockStands(async () => {
      for (let i = 0; i < 12; i += 1) expect((await chat()).status).to.equal(200);
    }, performance);
    expect(a.requests).to.have.lengthOf(5);
  });

  it('keep retries a small part of all calls', async () => {
    await start({ weight: 0 }, {}, { retry: { attempts: 3, maxWait: 10 } });
    a.script = json(429, {});
    b.script = json(429, { error: { code: 'busy' } });
    for (let i = 0; i < 30; i += 1) await chat();
    expect(a.requests.length + b.requests.length).to.be.within(30, 44);
  });

  it('end when the client disconnects while a retry waits', async () => {
    const answers: number[] = [];
    const observer: ModelObserver = {
      upstreamAnswered: (_upstream, status) => void answers.push(status),
      upstreamFailed() {},
      usageCounted() {},
    };
    await start({ models: ['only-a'] }, { models: [] }, { observers: [observer] });
    a.script = json(503, {}, { 'retry-after-ms': '1500' });
    const abort = new AbortController();
    const call = server
      ?.client()
      .chat.completions.create(
        { model: 'only-a', messages: [{ role: 'user', content: 'Hi' }] },
        { signal: abort.signal },
      );
    const failed = call?.then(
      () => false,
      () => true,
    );
    await until(() => answers.length === 1);
    abort.abort();
    expect(await failed).to.equal(true);
    // shows that no other try is made
    await sleep(1_600);
    expect(a.requests).to.have.lengthOf(1);
  });

  it('say which upstream answered only when the host wants it', async () => {
    a.script = json(200, { choices: [{}] });
    await start({}, {}, { exposeUpstream: false });
    expect((await chat()).upstream).to.equal(null);
  });

  it('send the headers that the host sets for the upstream and those that it forwards', async () => {
    a.script = json(200, { choices: [{}] });
    await start({ apiKey: 'k', headers: { 'X-Org': 'ours', 'User-Agent': 'gw' }, forwardHeaders: ['X-Trace'] });
    await chat('m', {}, { 'x-trace': 't1', 'x-org': 'theirs', 'x-other': 'o' });
    expect(a.last.headers).to.include({
      'x-org': 'ours',
      'user-agent': 'gw',
      'x-trace': 't1',
      authorization: 'Bearer k',
    });
    expect(a.last.headers).not.to.have.property('x-other');
  });

  const list = (...ids: string[]) =>
    json(200, {
      object: 'list',
      data: ids.map((id) => ({ id, object: 'model', created: 7, owned_by: 'vendor', context: 8_000 })),
    });

  describe('and the list of models', () => {
    it('is merged, filtered to what is served, with aliases', async () => {
      a.script = list('gpt-5', 'whisper', 'both');
      b.script = list('both', 'meta/llama');
      await start({ models: ['gpt-*', 'both', 'hidden'], aliases: { fast: 'gpt-5' } });
      const models = (await server?.client().models.list())?.data ?? [];
      expect(models.map(({ id }) => id)).to.deep.equal(['gpt-5', 'both', 'hidden', 'fast', 'meta/llama']);
      expect(models[0]).to.include({ owned_by: 'vendor', context: 8_000 });
      expect(models[3]).to.include({ owned_by: 'vendor', context: 8_000 });
    });

    it('is read where an upstream answers it bare, or null in its place', async () => {
      const warnings: unknown[] = [];
      const logger = { ...silentLogger, warn: (_message: string, fields?: object) => warnings.push(fields) };
      a.script = json(200, [{ id: 'bare', object: 'model', created: 7 }]);
      b.script = json(200, { object: 'list', data: null });
      await start({}, { models: ['named'] }, { logger });
      const models = (await server?.client().models.list())?.data ?? [];
      expect(models.map(({ id, owned_by }) => [id, owned_by])).to.deep.equal([
        ['bare', 'system'],
        ['named', 'system'],
      ]);
      expect(warnings).to.deep.equal([]);
    });

    it('is cached for a while, and fetched once for many callers', async () => {
      a.script = list('x');
      b.script = list('y');
      await start({}, {}, { modelListLifetime: 600_000 });
      await Promise.all(Array.from({ length: 10 }, () => server?.client().models.list()));
      await server?.client().models.list();
      expect([a.requests.length, b.requests.length]).to.deep.equal([1, 1]);
    });

    it('is fetched again when its lifetime is over', async () => {
      a.script = list('x');
      b.script = list('y');
      await start({}, {}, { modelListLifetime: 100 });
      await server?.client().models.list();
      // longer than modelListLifetime
      await sleep(120);
      await server?.client().models.list();
      await until(() => a.requests.length === 2);
    });

    it('is answered from the cache while an upstream that is asked again hangs', async () => {
      a.script = list('x');
      b.script = list('y');
      await start({}, {}, { modelListLifetime: 0 });
      const timed = async () => {
        const startedAt = performance.now();
        expect((await server?.client().models.list())?.data.map(({ id }) => id)).to.deep.equal(['x', 'y']);
        return performance.now() - startedAt;
      };
      const idle = await timed();
      b.script = hang;
      expect((await timed()) + (await timed()) + (await timed())).to.be.below(3_000 + 10 * idle);
      expect([a.requests.length, b.requests.length]).to.deep.equal([2, 2]);
      // it has not been given up
      expect(await Promise.race([b.last.closed, 'hangs'])).to.equal('hangs');
    });

    it('leaves out an upstream that fails, and is a 502 when all of them fail', async () => {
      const warnings: unknown[] = [];
      const logger = { ...silentLogger, warn: (_message: string, fields?: object) => warnings.push(fields) };
      a.script = json(500, {});
      b.script = list('y');
      await start({}, {}, { modelListLifetime: 0, logger });
      expect((await server?.client().models.list())?.data.map(({ id }) => id)).to.deep.equal(['y']);
      expect(warnings).to.deep.equal([{ upstream: 'a', code: 'invalid_response', status: 500 }]);
      b.script = reset();
      const ask = () => fetch(`${server?.baseUrl}/models`, { headers: { authorization: `Bearer ${callerKey}` } });
      await until(async () => (await ask()).status === 502);
    });

    it('gives one model by its id, with slashes raw or encoded, and 404 for another', async () => {
      a.script = list('meta/llama-4/scout');
      await start({}, { models: [] });
      const get = async (path: string) => {
        const response = await fetch(`${server?.baseUrl}/models/${path}`, {
          headers: { authorization: `Bearer ${callerKey}` },
        });
        return [response.status, ((await response.json()) as { id?: string }).id];
      };
      expect(await get('meta/llama-4/scout')).to.deep.equal([200, 'meta/llama-4/scout']);
      expect(await get('meta%2Fllama-4%2Fscout')).to.deep.equal([200, 'meta/llama-4/scout']);
      expect((await get('other'))[0]).to.equal(404);
    });
  });

  describe('and models that are served but not listed', () => {
    const retrieve = async (id: string) => {
      try {
        return await server?.client().models.retrieve(id);
      } catch (error) {
        return (error as { code?: unknown }).code;
      }
    };
    const unlisted = (id: string) => ({ id, object: 'model', created: 0, owned_by: 'system' });

    it('are retrieved where a pattern of an upstream matches them', async () => {
      a.script = list('gpt-x');
      b.script = list('y');
      await start({ models: ['gpt-*'] }, { models: ['*'] });
      expect(await retrieve('gpt-x')).to.deep.include({ id: 'gpt-x' });
      expect(await retrieve('gpt-y')).to.deep.equal(unlisted('gpt-y'));
      expect(await retrieve('other')).to.equal('model_not_found');
    });

    it('are retrieved where an upstream that serves any model has no list', async () => {
      a.script = json(404, { error: {} });
      b.script = list('y');
      await start({}, { models: ['y'] });
      expect(await retrieve('any/model')).to.deep.equal(unlisted('any/model'));
      expect((await server?.client().models.list())?.data.map(({ id }) => id)).to.deep.equal(['y']);
    });

    it('are not retrieved with a key that may not call them', async () => {
      a.script = json(404, { error: {} });
      await start({ models: ['gpt-*'] }, { models: [] });
      const stranger = server?.client({ apiKey: limitedKey });
      expect(await stranger?.models.retrieve('gpt-1')).to.deep.equal(unlisted('gpt-1'));
      const thrown = await stranger?.models.retrieve('gpt-2').catch((error: unknown) => error);
      expect(thrown).to.include({ code: 'model_not_found' });
    });
  });

  describe('are metered', () => {
    const usage = { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 };
    let records: UsageRecord[];

    const metered = async (first: Partial<UpstreamOptions> = {}) => {
      records = [];
      await start(first, {}, { hooks: { onUsage: (record) => void records.push(record) } });
    };
    const recorded = async () => {
      await until(() => records.length > 0);
      return records[0];
    };

    it('exactly, from what the upstream reports', async () => {
      await metered();
      a.script = json(200, { choices: [{}], usage });
      await chat('gpt-x');
      expect(await recorded()).to.include({
        userId: 'usr_1',
        keyId: null,
        endpoint: '/chat/completions',
        model: 'gpt-x',
        upstream: 'a',
        inputTokens: 3,
        outputTokens: 5,
        images: 0,
        estimated: false,
        ending: 'complete',
      });
    });

    it('with the time to the first byte and to the end', async () => {
      await metered();
      let finish = () => {};
      const started = new Promise<void>((resolve) => {
        finish = resolve;
      });
      a.script = async (res) => {
        // the upstream answers slowly on purpose
        await sleep(60);
        res.writeHead(200, { 'content-type': 'text/event-stream' });
        res.write('data: {"choices":[{}]}\n\n');
        await started;
        // and ends slowly, counted from the moment when the client has the first byte
        await sleep(60);
        res.end('data: [DONE]\n\n');
      };
      const ask = { model: 'm', stream: true as const, messages: [{ role: 'user' as const, content: 'Hi' }] };
      const stream = await server?.client().chat.completions.create(ask);
      for await (const _ of stream ?? []) finish();
      const { firstByteMs = 0, durationMs = 0 } = (await recorded()) ?? {};
      expect(firstByteMs).to.be.at.least(58);
      expect(durationMs - firstByteMs).to.be.at.least(58);
    });

    it('exactly for a stream, though the caller never sees the usage', async () => {
      await metered();
      a.script = events([
        { choices: [{ delta: { content: 'a' } }], usage: null },
        { choices: [], usage },
      ]);
      expect((await chat('m', { stream: true })).text).not.to.include('prompt_tokens');
      expect(await recorded()).to.include({ inputTokens: 3, outputTokens: 5, estimated: false, ending: 'complete' });
    });

    it('by an estimate when the upstream reports no usage', async () => {
      await metered({ includeUsage: false });
      a.script = events([{ choices: [{}] }, { choices: [{}] }]);
      await chat('m', { stream: true });
      const record = await recorded();
      expect(record).to.include({ outputTokens: 3, estimated: true, ending: 'complete' });
      expect(record?.inputTokens).to.be.above(10);
    });

    it('by an estimate when the client disconnects early', async () => {
      await metered();
      a.script = stall('data: {"choices":[{}]}\n\ndata: {"choices":[{}]}\n\n');
      const abort = new AbortController();
      const stream = await server
        ?.client()
        .chat.completions.create(
          { model: 'm', messages: [{ role: 'user', content: 'Hi' }], stream: true },
          { signal: abort.signal },
        );
      for await (const _ of stream ?? []) abort.abort();
      expect(await recorded()).to.include({ outputTokens: 2, estimated: true, ending: 'client_left' });
    });

    it('by an estimate when the client disconnects before the first byte', async () => {
      await metered();
      a.script = hang;
      const abort = new AbortController();
      const request = { model: 'm', messages: [{ role: 'user' as const, content: 'Hi' }] };
      const call = server?.client().chat.completions.create(request, { signal: abort.signal });
      await Promise.all([call?.catch(() => {}), a.received(1).then(() => abort.abort())]);
      const record = await recorded();
      expect(record).to.include({ outputTokens: 0, estimated: true, ending: 'client_left', upstream: 'a' });
      expect(record?.inputTokens).to.be.above(10);
    });

    it('by an estimate when the upstream breaks off', async () => {
      await metered();
      a.script = reset('data: {"choices":[{}]}\n\n');
      await chat('m', { stream: true });
      expect(await recorded()).to.include({ outputTokens: 1, estimated: true, ending: 'upstream_failed' });
    });

    it('by the number of images in the answer', async () => {
      await metered();
      a.script = json(200, { created: 1, data: [{ b64_json: 'AA' }, { b64_json: 'BB' }] });
      await server?.client().images.generate({ model: 'm', prompt: 'two' });
      expect(await recorded()).to.include({ images: 2, outputTokens: 0, estimated: false });
    });

    it('by the number of images in a stream', async () => {
      await metered();
      const frame = (type: string) => `event: ${type}\ndata: {"type":"${type}","b64_json":"AA"}\n\n`;
      a.script = chunks([frame('image_generation.partial_image'), frame('image_generation.completed')]);
      const stream = await server?.client().images.generate({ model: 'm', prompt: 'one', stream: true });
      for await (const _ of stream ?? []);
      expect(await recorded()).to.include({ images: 1, outputTokens: 0, estimated: false });
    });

    it('not at all when they end in an error', async () => {
      await metered();
      a.script = json(400, {});
      await chat();
      b.script = reset();
      a.script = reset();
      await chat();
      // records come in the order of the calls
      a.script = json(200, { choices: [{}] });
      expect((await chat('after')).status).to.equal(200);
      await recorded();
      expect(records.map(({ model }) => model)).to.deep.equal(['after']);
    });
  });

  describe('call the hooks of the host', () => {
    it('of which onRequest may refuse a call or choose another model', async () => {
      a.script = json(200, { choices: [{}] });
      const seen: unknown[] = [];
      await start(
        {},
        {},
        {
          hooks: {
            onRequest: ({ model, stream, endpoint, principal }) => {
              seen.push([model, stream, endpoint, principal.userId]);
              if (model === 'forbidden') throw new GatewayError('model_not_found', 'Not for you', { param: 'model' });
              return model === 'old' ? { model: 'new' } : undefined;
            },
          },
        },
      );
      const refused = await chat('forbidden');
      expect([refused.status, JSON.parse(refused.text).error.message]).to.deep.equal([404, 'Not for you']);
      await chat('old', { stream: true });
      expect(JSON.parse(a.last.body.toString()).model).to.equal('new');
      expect(seen).to.deep.equal([
        ['forbidden', false, '/chat/completions', 'usr_1'],
        ['old', true, '/chat/completions', 'usr_1'],
      ]);
    });

    it('and answer the client when a hook fails, with the failure in the log', async () => {
      a.script = json(200, { ok: true, choices: [{}] });
      const errors: string[] = [];
      const logger = { ...silentLogger, error: (message: string) => void errors.push(message) };
      const fail = () => Promise.reject(new Error('broken'));
      await start(
        {},
        {},
        {
          logger,
          hooks: {
            onResponse: fail,
            onUsage: () => {
              throw new Error('broken');
            },
          },
        },
      );
      expect((await chat()).text).to.equal('{"ok":true,"choices":[{}]}');
      await until(() => errors.length >= 2);
      expect(errors).to.have.members(["the host's onResponse failed", "the host's onUsage failed"]);
    });

    it('and fail with 500 when onRequest fails, without a call to the upstream', async () => {
      a.script = json(200, { choices: [{}] });
      await start({}, {}, { hooks: { onRequest: () => Promise.reject(new Error('broken')) } });
      expect((await chat()).status).to.equal(500);
      expect(a.requests).to.have.lengthOf(0);
    });
  });

  it('end with an error when the gateway closes, a stream by an event', async () => {
    a.script = inTurn(stall('data: {"choices":[{}]}\n\n'), hang);
    await start();
    const ask = { model: 'm', stream: true as const, messages: [{ role: 'user' as const, content: 'Hi' }] };
    const stream = await server?.client().chat.completions.create(ask).asResponse();
    const unanswered = chat();
    await a.received(2);
    await server?.proxy.close();
    expect(await stream?.text()).to.include('shutting_down');
    const { status, text } = await unanswered;
    expect(status).to.equal(503);
    expect(text).to.include('shutting_down');
  });
});
