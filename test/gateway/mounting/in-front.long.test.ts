import { IncomingMessage } from 'node:http';
import { expect } from 'chai';
import OpenAI from 'openai';
import { type ModelGateway, scopes } from '../../../src/index.ts';
import { startReceiver } from '../../deliveries/receiver.ts';
import { createGateway } from '../../support/gateway.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { operations } from '../../support/spec.ts';
import { ScriptedUpstream } from '../../support/upstream.ts';
import { Conversation } from './in-front/conversation.ts';
import { inExpress, type Mounting, otherMountings, serve } from './in-front/mountings.ts';
import { converse } from './in-front/script.ts';
import { steady } from './in-front/upstream.ts';

const all = [inExpress, ...otherMountings];

/** What a host's function can read of the request it is given, in every way of mounting. */
function readable(req: IncomingMessage) {
  const { originalUrl, body } = req as { originalUrl?: string; body?: unknown };
  return {
    isNodes: req instanceof IncomingMessage,
    method: req.method,
    url: req.url,
    originalUrl,
    accept: req.headers.accept,
    cookie: req.headers.cookie,
    from: req.socket.remoteAddress,
    isUnread: !req.readableDidRead && body === undefined,
  };
}

describe('a gateway in front of Express', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let receiver: Awaited<ReturnType<typeof startReceiver>>;
  let upstream: ScriptedUpstream;
  let gateway: ModelGateway;

  before(async () => {
    database = await freshDatabase();
    receiver = await startReceiver(200);
    upstream = await ScriptedUpstream.start();
    upstream.script = steady;
    gateway = await createGateway({
      mongo: database.connection,
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl, apiKey: 'up' }],
      modelCalls: { attempts: 1 },
      credits: { prices: { '*': { input: 0.1, output: 0.4, image: 0.001 } }, initialBalance: 10 },
      dashboard: {
        path: '/dashboard',
        authenticate: ({ headers }) => {
          const [, userId] = /^host=(\w+)$/.exec(headers.cookie ?? '') ?? [];
          return userId === undefined ? null : { userId, scopes: ['webhooks'] };
        },
      },
    });
    await gateway.start();
  });
  after(async () => {
    await gateway.close();
    await upstream.close();
    await receiver.stop();
    await database.drop();
  });

  async function hold(mounting: Mounting): Promise<Conversation> {
    const { port, close } = await serve(gateway.router, mounting);
    const userId = `usr_mounted${all.indexOf(mounting)}`;
    const { key } = await gateway.keys.create({ userId, scopes });
    const conversation = new Conversation({ port, prefix: mounting.prefix, userId, key });
    await converse(conversation, receiver.url).finally(() => {
      conversation.close();
      return close();
    });
    return conversation;
  }

  describe('compared with one in Express 5', () => {
    let expected: Conversation;

    before(async () => {
      expected = await hold(inExpress);
    });

    it('gets a request for every operation of openapi.yaml', () => {
      expect([...expected.asked].sort()).to.deep.equal(operations.map(({ operation }) => operation.operationId).sort());
    });

    for (const mounting of otherMountings) {
      it(`answers with the same status, headers and body ${mounting.name}`, async () => {
        const { answers } = await hold(mounting);
        for (const [name, answer] of expected.answers) {
          // a prefix can be no part of an absolute target
          if (answers.has(name) || !mounting.prefix) expect(answers.get(name), name).to.deep.equal(answer);
        }
      });
    }
  });

  for (const mounting of all) {
    it(`serves OpenAI's client ${mounting.name}`, async () => {
      const { port, close } = await serve(gateway.router, mounting);
      const { key } = await gateway.keys.create({ userId: 'usr_openai' });
      const baseURL = `http://127.0.0.1:${port}${mounting.prefix}/v1`;
      const openai = new OpenAI({ baseURL, apiKey: key, maxRetries: 0 });
      const chat = { model: 'm', messages: [{ role: 'user' as const, content: 'Hé' }] };

      const { choices } = await openai.chat.completions.create(chat);
      expect(choices[0]?.message.content).to.equal('Hé, "you"');
      let streamed = '';
      for await (const chunk of await openai.chat.completions.create({ ...chat, stream: true })) {
        streamed += chunk.choices[0]?.delta.content ?? '';
      }
      expect(streamed).to.equal('Hé, you');
      expect((await openai.models.list()).data.map(({ id }) => id)).to.deep.equal(['m', 'meta/llama-3']);
      expect(await openai.models.retrieve('meta/llama-3')).to.include({ id: 'meta/llama-3' });
      const refused = await new OpenAI({ baseURL, apiKey: 'emg_wrong', maxRetries: 0 }).models.list().catch((e) => e);
      expect(refused).to.be.instanceOf(OpenAI.AuthenticationError).and.include({ code: 'invalid_api_key' });
      await close();
    });
  }
});

describe("a host's functions in front of Express", () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let gateway: ModelGateway;
  const seen: Record<string, unknown>[] = [];

  before(async () => {
    database = await freshDatabase();
    const see = (name: string) => (req: IncomingMessage) => {
      seen.push({ name, ...readable(req) });
      return { userId: 'usr_1' };
    };
    gateway = await createGateway({
      mongo: database.connection,
      authenticate: see('authenticate'),
      dashboard: { path: '/dashboard', authenticate: see('dashboard.authenticate') },
    });
  });
  after(async () => {
    await gateway.close();
    await database.drop();
  });

  /** What both functions are given of a request each. */
  async function requestsGiven(mounting: Mounting) {
    const { port, close } = await serve(gateway.router, mounting);
    const base = `http://127.0.0.1:${port}`;
    const headers = { accept: 'application/json', cookie: 'a=b', 'sec-fetch-site': 'same-origin' };
    seen.length = 0;
    await fetch(`${base}/v1/webhooks?limit=1`, { headers });
    await fetch(`${base}/v1/webhooks`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: '{}',
    });
    await fetch(`${base}/dashboard/session`, { headers });
    await fetch(`${base}/dashboard/v1/webhooks?limit=1`, { headers });
    await close();
    return [...seen];
  }

  const inFront = otherMountings.find((mounting) => mounting.inFront) as Mounting;

  it('get the same request as in Express, before its body is read', async () => {
    const expected = await requestsGiven(inExpress);
    expect(expected.map(({ name, url, isUnread }) => [name, url, isUnread])).to.deep.equal([
      ['authenticate', '/v1/webhooks?limit=1', true],
      ['authenticate', '/v1/webhooks', true],
      ['dashboard.authenticate', '/dashboard/session', true],
      ['dashboard.authenticate', '/v1/webhooks?limit=1', true],
    ]);
    const given = await requestsGiven(inFront);
    const asked = ({ url, originalUrl = url, ...rest }: Record<string, unknown>) => ({ url, originalUrl, ...rest });
    expect(given.map(asked)).to.deep.equal(expected);
  });
});
