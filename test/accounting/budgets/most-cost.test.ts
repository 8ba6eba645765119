import { expect } from 'chai';
import OpenAI from 'openai';
import type { Budget, ModelGatewayOptions } from '../../../src/index.ts';
import { type LiveGateway, startGateway } from '../../support/gateway.ts';
import { refusalOf } from '../../support/refusal.ts';
import { until } from '../../support/until.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';

/** A token costs a credit, so that a call of few tokens is dear. */
const prices = { '*': { input: 0, output: 1_000_000 }, picture: { image: 40 } };

const completion = json(200, {
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'yes' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});

const messages = [{ role: 'user' as const, content: 'Hi' }];
const chat = (client: OpenAI, more: object = {}) =>
  client.chat.completions.create({ model: 'm', messages, max_tokens: 1, ...more });

/** Where budgets are: of the key, of the account, or a quota. */
const places = ['API key', 'account', 'quota'] as const;
type Place = (typeof places)[number];
const ownerOf = (place: Place) => (place === 'API key' ? place : 'account');

describe('the most that a call may use of budgets and quotas', function () {
  this.timeout(60_000);
  let upstream: ScriptedUpstream;
  let priced: LiveGateway;
  let unpriced: LiveGateway;
  let accounts = 0;

  function start(options: Partial<ModelGatewayOptions>) {
    // the unit and the maximum of an account's quota are in its name
    const perUser = (userId: string) => {
      const [, unit, daily] = /^quota_(tokens|requests|credits)_(\d+)_/.exec(userId) ?? [];
      return unit === undefined ? undefined : { unit: unit as 'tokens', daily: Number(daily) };
    };
    const upstreams = [{ name: 'scripted', baseUrl: upstream.baseUrl }];
    return startGateway({ upstreams, quotas: { perUser, enforce: true }, ...options });
  }

  before(async () => {
    upstream = await ScriptedUpstream.start();
    priced = await start({ credits: { prices, initialBalance: 1_000_000, expectedOutputTokens: 10 } });
    unpriced = await start({});
  });
  beforeEach(() => {
    upstream.script = completion;
  });
  after(async () => {
    await priced?.close();
    await unpriced?.close();
    await upstream?.close();
  });

  /** A client of a new account with such a budget. */
  async function clientWith(place: Place, unit: 'tokens' | 'requests' | 'credits', maximum: number, live = priced) {
    accounts += 1;
    const userId = place === 'quota' ? `quota_${unit}_${maximum}_${accounts}` : `usr_${accounts}`;
    const budgets: Budget[] = [{ period: 'day', [unit]: maximum }];
    if (place === 'account') await live.gateway.budgets?.set(userId, budgets);
    const { key: apiKey } = await live.gateway.keys.create({ userId, ...(place === 'API key' && { budgets }) });
    return new OpenAI({ apiKey, baseURL: `${live.url}/v1`, maxRetries: 0 });
  }

  for (const place of places) {
    const name = place === 'quota' ? 'quota' : 'budget';

    it(`is refused where it costs more than is left: a ${name} in credits, of the ${place}`, async () => {
      const client = await clientWith(place, 'credits', 1);
      const before = upstream.requests.length;
      const error = await refusalOf(client.images.generate({ model: 'picture', prompt: 'x', n: 1_000 }));
      expect(error).to.include({ status: 429, code: 'insufficient_quota', type: 'insufficient_quota', param: 'n' });
      expect(error.message).to.match(
        new RegExp(
          `This call may cost 40000 credits, and this ${ownerOf(place)} has 1 left of its daily ${name} of 1 credits; lower n; it resets at \\d{4}-`,
        ),
      );
      expect(error.headers?.get('x-should-retry')).to.equal('false');
      expect(upstream.requests).to.have.length(before);
      // nothing is reserved for what was refused
      expect((await chat(client)).choices).to.have.length(1);
    });

    for (const [unit, maximum, most] of [
      ['credits', 7, { max_tokens: 1 }],
      ['tokens', 7_500, { max_tokens: 1_000 }],
      ['requests', 7, { max_tokens: 1 }],
    ] as const) {
      it(`is reserved while it is under way, of 60 calls at once as many as fit are made: ${unit}, ${place}`, async () => {
        const client = await clientWith(place, unit, maximum);
        const before = upstream.requests.length;
        let answer = (): void => {};
        const all = new Promise<void>((resolve) => {
          answer = resolve;
        });
        upstream.script = async (...exchange) => {
          await all;
          return completion(...exchange);
        };
        const calls = Array.from({ length: 60 }, () => chat(client, most));
        const refused: InstanceType<typeof OpenAI.APIError>[] = [];
        for (const call of calls) call.catch((error) => refused.push(error));
        await until(() => refused.length === 53);
        answer();
        await Promise.allSettled(calls);
        expect(upstream.requests.length - before).to.equal(7);
        for (const error of refused) {
          expect(error).to.include({ status: 429, code: 'insufficient_quota' });
          expect(error.message).to.match(
            / left of its daily \S+ of .*, beside \d+ that are reserved for calls under way; /,
          );
        }
      });
    }
  }

  for (const [says, more, param] of [
    ['several answers', { n: 1_000 }, 'n'],
    ['best_of', { best_of: 600 }, 'best_of'],
    ['1e308 answers', { n: 1e308 }, 'n'],
    ['long ones', { max_tokens: 501 }, 'max_tokens'],
    ['a long prompt', { messages: [{ role: 'user', content: 'x'.repeat(4_000) }] }, 'messages'],
    ['none that has a limit', { max_tokens: null, n: 60 }, 'n'],
  ] as const) {
    it(`is refused where it has more tokens than are left of a budget: ${says}`, async () => {
      const client = await clientWith('API key', 'tokens', 500);
      const before = upstream.requests.length;
      const error = await refusalOf(chat(client, more));
      expect(error).to.include({ status: 429, code: 'insufficient_quota', param });
      const left = `this API key has 500 left of its daily budget of 500 tokens; lower ${param}; it resets at`;
      expect(error.message).to.match(new RegExp(`This call may use \\d+ tokens, and ${left}`));
      expect(upstream.requests).to.have.length(before);
      expect((await chat(client)).choices).to.have.length(1);
    });
  }

  it('is free again when the call has failed', async () => {
    const client = await clientWith('API key', 'requests', 1);
    upstream.script = json(400, { error: { message: 'no' } });
    for (let i = 0; i < 5; i += 1) expect(await refusalOf(chat(client))).to.include({ status: 400 });
    upstream.script = completion;
    expect((await chat(client)).choices).to.have.length(1);
  });

  it('stays reserved while a response runs in the background', async () => {
    const client = await clientWith('account', 'credits', 100);
    upstream.script = json(200, { id: 'resp_1', object: 'response', status: 'in_progress', output: [] });
    await client.responses.create({ model: 'm', input: 'Hi', background: true, max_output_tokens: 90 });
    upstream.script = completion;
    const error = await refusalOf(chat(client, { max_tokens: 20 }));
    expect(error.message).to.include('may cost 20 credits, and this account has 10 left');
    expect(error.message).to.include('beside 90 that are reserved for calls under way; lower max_tokens');
    expect((await chat(client, { max_tokens: 10 })).choices).to.have.length(1);
  });

  it('refuses no call of many images where budgets have room for it and nothing has a price', async () => {
    for (const [unit, maximum] of [
      ['requests', 1],
      ['tokens', 1_000_000],
    ] as const) {
      const client = await clientWith('account', unit, maximum, unpriced);
      upstream.script = json(200, { created: 1, data: [{ b64_json: 'QQ==' }] });
      const images = await client.images.generate({ model: 'picture', prompt: 'x', n: 500 });
      expect(images.data).to.have.length(1);
    }
  });
});
