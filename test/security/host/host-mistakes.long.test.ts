import { expect } from 'chai';
import express from 'express';
import fc from 'fast-check';
import { errorStatus } from '../../../src/errors.ts';
import {
  createModelGateway,
  type ErrorBody,
  GatewayError,
  type Logger,
  type ModelGateway,
  type ModelGatewayOptions,
} from '../../../src/index.ts';
import { loopbackOptions, newSecretKey } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { anyThrown, untouchable } from '../../support/thrown.ts';
import { until } from '../../support/until.ts';
import { events, json, ScriptedUpstream } from '../../support/upstream.ts';

/** The host's functions that a model call, or a visit to the dashboard, runs into. */
const functions = [
  'authenticate',
  'dashboard.authenticate',
  'onRequest',
  'onResponse',
  'onUsage',
  'limits.perKey',
  'limits.perUser',
  'quotas.perUser',
  'onDisable',
  'logger',
] as const;
type HostFunction = (typeof functions)[number];

interface Mistake {
  readonly where: HostFunction;
  readonly how: 'throws' | 'rejects' | 'gives';
  readonly what: () => unknown;
}

const chat = { model: 'm', messages: [{ role: 'user', content: 'Hello' }] };

describe('a mistake in a function of the host', function () {
  this.timeout(120_000);
  let upstream: ScriptedUpstream;
  let gateway: ModelGateway;
  let url: string;
  let close: () => Promise<void>;
  let mistake: Mistake | undefined;
  let lines: string[] = [];

  /** What the host's function does now: its work, or its mistake. */
  function run(where: HostFunction, work: () => unknown): unknown {
    if (mistake?.where !== where) return work();
    const what = mistake.what();
    if (mistake.how === 'throws') throw what;
    return mistake.how === 'rejects' ? Promise.reject(what) : what;
  }

  const logger: Logger = {
    info() {},
    warn: (message, fields) => run('logger', () => lines.push(`${message} ${JSON.stringify(fields)}`)) as never,
    error: (message, fields) => run('logger', () => lines.push(`${message} ${JSON.stringify(fields)}`)) as never,
  };

  /** The background work of the gateway may log as well. */
  const hasLogged = (what: RegExp) => lines.some((line) => what.test(line));

  const unhandled: unknown[] = [];
  const onUnhandled = (reason: unknown) => unhandled.push(reason);

  before(async () => {
    process.on('unhandledRejection', onUnhandled);
    upstream = await ScriptedUpstream.start();
    upstream.script = json(200, { choices: [{}], usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } });
    const database = await freshDatabase();
    gateway = await createModelGateway({
      ...loopbackOptions,
      mongo: database.connection,
      secretKeys: [newSecretKey()],
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
      authenticate: () => run('authenticate', () => ({ userId: 'usr_1', keyId: 'key_1' })),
      onRequest: () => run('onRequest', () => undefined),
      onResponse: () => run('onResponse', () => undefined),
      onUsage: () => run('onUsage', () => undefined),
      limits: {
        perKey: () => run('limits.perKey', () => undefined),
        perUser: () => run('limits.perUser', () => undefined),
      },
      quotas: { perUser: () => run('quotas.perUser', () => undefined) },
      deliveries: {
        disableOnGone: true,
        onDisable: () => run('onDisable', () => undefined),
      },
      dashboard: { path: '/dashboard', authenticate: () => run('dashboard.authenticate', () => null) },
      logger,
    } as unknown as ModelGatewayOptions);
    await gateway.start();
    const server = await listen(express().use(gateway.router));
    url = server.url;
    close = async () => {
      await server.close();
      await gateway.close();
      await database.drop();
      await upstream.close();
    };
  });
  afterEach(async () => {
    await new Promise(setImmediate);
    expect(unhandled.splice(0)).to.deep.equal([]);
    mistake = undefined;
    lines = [];
  });
  after(async () => {
    process.off('unhandledRejection', onUnhandled);
    await close?.();
  });

  function ask(where: HostFunction, body: object = chat): Promise<Response> {
    if (where === 'dashboard.authenticate') return fetch(`${url}/dashboard/session`);
    return fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  }

  it('leads to one JSON answer, whatever the function throws, rejects or returns, and the next call succeeds', async () => {
    const anyMistake = fc.record({
      where: fc.constantFrom(...functions),
      how: fc.constantFrom('throws' as const, 'rejects' as const, 'gives' as const),
      what: anyThrown,
    });
    await fc.assert(
      fc.asyncProperty(anyMistake, async (made) => {
        mistake = made;
        const response = await ask(made.where);
        const text = await response.text();
        mistake = undefined;
        const statuses = [200, 401, ...Object.values(errorStatus)];
        expect(statuses).to.include(response.status);
        expect(response.headers.get('content-type')).to.match(/^application\/json/);
        if (response.status !== 200) expect(JSON.parse(text).error).to.include.keys('message', 'type', 'param', 'code');
      }),
      { numRuns: 2_000 },
    );
    expect((await ask('onRequest')).status).to.equal(200);
  });

  it('in a stream that has begun leaves the stream complete', async () => {
    const before = upstream.script;
    upstream.script = events([
      { choices: [{ delta: { content: 'a' } }] },
      { choices: [], usage: { prompt_tokens: 1 } },
    ]);
    for (const where of ['onResponse', 'onUsage', 'logger', 'quotas.perUser'] as const) {
      mistake = { where, how: 'rejects', what: untouchable };
      const text = await (await ask(where, { ...chat, stream: true })).text();
      expect(text, where).to.match(/data: \[DONE\]\n\n$/);
    }
    upstream.script = before;
  });

  it('in the code of an error is answered with 500, and the log names the code', async () => {
    for (const where of ['onRequest', 'authenticate'] as const) {
      lines = [];
      mistake = { where, how: 'throws', what: () => new GatewayError('quota_used_up' as never, 'Nothing is left') };
      const response = await ask(where);
      expect([response.status, ((await response.json()) as ErrorBody).error.code]).to.deep.equal([
        500,
        'internal_error',
      ]);
      expect(hasLogged(/has the code quota_used_up, which is none of ErrorCode/)).to.equal(true);
    }
  });

  it('in a header of an error leaves that header out, and the log names it', async () => {
    for (const value of [undefined, 'a\r\nset-cookie: x=1', '\u20ac']) {
      lines = [];
      const headers = { 'x-odd': value, 'retry-after': '7' } as Record<string, string>;
      mistake = {
        where: 'onRequest',
        how: 'throws',
        what: () => new GatewayError('rate_limit_exceeded', 'Later', { headers }),
      };
      const response = await ask('onRequest');
      expect([response.status, response.headers.get('retry-after'), response.headers.get('x-odd')]).to.deep.equal([
        429,
        '7',
        null,
      ]);
      expect(response.headers.get('set-cookie')).to.equal(null);
      expect(hasLogged(/headers that cannot be sent and were left out: x-odd/)).to.equal(true);
    }
  });

  it('in the class of an error does not matter: one of another copy of the package keeps its code', async () => {
    const foreign = Object.assign(new Error('Nothing is left'), { name: 'GatewayError', code: 'insufficient_credits' });
    mistake = { where: 'onRequest', how: 'rejects', what: () => foreign };
    const response = await ask('onRequest');
    expect([response.status, ((await response.json()) as ErrorBody).error]).to.deep.equal([
      402,
      { message: 'Nothing is left', type: 'insufficient_quota', param: null, code: 'insufficient_credits' },
    ]);
  });

  it('in a limit does not lift it: the call is answered with 500', async () => {
    const nonsense = [
      { requestsPerMinute: Number.NaN },
      { tokensPerMinute: '1' },
      { requestsPerMinute: -1 },
      // biome-ignore lint/suspicious/noThenProperty: as a query has it that nobody awaits
      { then: () => {} },
      ...['none', '', 7, 0, true, [60]],
    ];
    for (const where of ['limits.perKey', 'limits.perUser'] as const) {
      for (const what of nonsense) {
        const before = upstream.requests.length;
        lines = [];
        mistake = { where, how: 'gives', what: () => what };
        expect((await ask(where)).status, `${where} ${JSON.stringify(what)}`).to.equal(500);
        expect(hasLogged(/functions in the option limits must give numbers/)).to.equal(true);
        expect(upstream.requests.length).to.equal(before);
      }
    }
  });

  it('in onDisable is logged, and the webhook that is gone is disabled later', async () => {
    const receiver = await listen((_req, res) => res.writeHead(410).end());
    const input = { url: receiver.url, events: ['credits.low'], secret: 'a-long-enough-secret' };
    const { id } = await gateway.webhooks.create('usr_1', input);
    mistake = { where: 'onDisable', how: 'rejects', what: untouchable };
    const data = { user_id: 'usr_1', credits_remaining: 5, threshold: 10 };
    await gateway.publish({ type: 'credits.low', userId: 'usr_1', data });
    await until(() => hasLogged(/looked at again .*cannot be turned into text/));
    mistake = undefined;
    await until(async () => !(await gateway.webhooks.get('usr_1', id)).active);
    await receiver.close();
  });

  it('that answers a request and still passes it on to the gateway keeps its answer', async () => {
    const host = await listen(
      express()
        .use((_req, res, next) => {
          res.end('of the host');
          next();
        })
        .use(gateway.router),
    );
    const response = await fetch(`${host.url}/v1/models`);
    expect([response.status, await response.text()]).to.deep.equal([200, 'of the host']);
    expect(hasLogged(/answered already/)).to.equal(true);
    await host.close();
  });
});
