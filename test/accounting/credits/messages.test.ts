import Anthropic from '@anthropic-ai/sdk';
import { expect } from 'chai';
import type { ModelGatewayOptions } from '../../../src/index.ts';
import { recordings, sent } from '../../proxy/messages/recorded.ts';
import { whileClockStands } from '../../support/clock.ts';
import { type LiveGateway, startGateway } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';
import { chunks, json, ScriptedUpstream } from '../../support/upstream.ts';

/** In credits for a million tokens: a token of each kind costs a power of ten in micro-credits. */
const credits: ModelGatewayOptions['credits'] = {
  prices: {
    '*': { input: 1, cachedInput: 10, cacheWrite: 100, output: 1_000 },
    plain: { input: 1, output: 1_000 },
    real: { input: 60, cacheWrite: 75 },
  },
  toolPrices: { web_search: 0.01 },
  initialBalance: 10,
};
const ask = { max_tokens: 400, messages: [{ role: 'user' as const, content: 'Hi' }] };
const usage = {
  ...{ input_tokens: 5, cache_creation_input_tokens: 3, cache_read_input_tokens: 2, output_tokens: 7 },
  server_tool_use: { web_search_requests: 2 },
};
const content = [
  { type: 'tool_use', id: 'toolu_1', name: 'report', input: { usage: { ...usage, input_tokens: 9_000 } } },
];
const message = { id: 'msg_1', type: 'message', role: 'assistant', content, stop_reason: 'tool_use', usage };

describe('messages of an account with credits', () => {
  let upstream: ScriptedUpstream;
  let live: LiveGateway;
  let client: Anthropic;
  let accounts = 0;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    live = await startGateway({
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl, speaks: ['anthropic'] }],
      credits,
      limits: { perKey: { requestsPerMinute: 2 } },
    });
  });
  beforeEach(async () => {
    accounts += 1;
    const { key } = await live.gateway.keys.create({ userId: `usr_messages_${accounts}` });
    client = new Anthropic({ apiKey: key, baseURL: live.url, maxRetries: 0 });
  });
  after(async () => {
    await live.close();
    await upstream.close();
  });

  /** What the one call of the account has cost, in micro-credits, and its line of usage over HTTP, asked for with the same key as it is sent. */
  async function charged() {
    const headers = { 'x-api-key': client.apiKey as string };
    const get = async (path: string) =>
      (await fetch(`${live.url}/v1${path}`, { headers })).json() as Promise<
        // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape it asks for
        any
      >;
    await until(async () => (await get('/usage')).data[0]?.requests === 1);
    const [line] = (await get('/usage')).data;
    return { line, cost: Math.round((10 - (await get('/credits')).credits_remaining) * 1e6) };
  }

  it('cost what their input, what of it was written into the cache and read from it, their output and their searches do', async () => {
    upstream.script = json(200, message);
    await client.messages.create({ ...ask, model: 'claude' });
    const { cost, line } = await charged();
    expect(cost).to.equal(5 + 3 * 100 + 2 * 10 + 7 * 1_000 + 2 * 10_000);
    const input = { input_tokens: 10, cached_input_tokens: 2, cache_write_tokens: 3 };
    expect(line).to.include({ ...input, output_tokens: 7, web_search_calls: 2 });
  });

  it('cost twice the price of input for what is kept in the cache for an hour', async () => {
    const split = { ephemeral_5m_input_tokens: 1, ephemeral_1h_input_tokens: 2 };
    upstream.script = json(200, { ...message, usage: { ...usage, cache_creation: split } });
    await client.messages.create({ ...ask, model: 'claude' });
    const { cost, line } = await charged();
    expect(cost).to.equal(5 + 100 + 2 * 2 + 2 * 10 + 7 * 1_000 + 2 * 10_000);
    expect(line).to.include({ input_tokens: 10, cache_write_tokens: 3, cache_write_hour_tokens: 2 });
  });

  it('cost the price of input where their model has none for the cache', async () => {
    const split = { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 3 };
    upstream.script = json(200, { ...message, usage: { ...usage, cache_creation: split } });
    await client.messages.create({ ...ask, model: 'plain' });
    expect((await charged()).cost).to.equal(10 + 7 * 1_000 + 2 * 10_000);
  });

  for (const { name, events, used } of recordings) {
    it(`cost the same when they are streamed: ${name}`, async () => {
      upstream.script = chunks(events.map(sent));
      await client.messages.stream({ ...ask, model: 'claude' }).finalMessage();
      const { cachedInputTokens = 0, cacheWriteTokens = 0, cacheWriteHourTokens = 0, webSearchCalls = 0 } = used;
      const plain = used.inputTokens - cachedInputTokens - cacheWriteTokens;
      const written = (cacheWriteTokens - cacheWriteHourTokens) * 100 + cacheWriteHourTokens * 2;
      expect((await charged()).cost).to.equal(
        plain + cachedInputTokens * 10 + written + used.outputTokens * 1_000 + webSearchCalls * 10_000,
      );
    });
  }

  it('are refused where the most that they may cost is not left, with what to lower', async () => {
    const tools = [{ type: 'web_search_20250305' as const, name: 'web_search' as const, max_uses: 1_000 }];
    const cached = [
      { type: 'text' as const, text: 'x'.repeat(400_000), cache_control: { type: 'ephemeral' as const } },
    ];
    upstream.requests.length = 0;
    for (const [fields, field] of [
      [{ max_tokens: 10_001 }, 'max_tokens'],
      [{ tools }, 'tools'],
      [{ system: cached }, 'messages'],
    ] as const) {
      const { key } = await live.gateway.keys.create({ userId: `usr_messages_${accounts}` });
      const other = new Anthropic({ apiKey: key, baseURL: live.url, maxRetries: 0 });
      const error = await other.messages.create({ ...ask, model: 'claude', ...fields }).catch((thrown) => thrown);
      expect([error.status, error.type]).to.deep.equal([402, 'billing_error']);
      expect(error.error.error).to.include({ code: 'insufficient_credits', param: field });
    }
    expect(upstream.requests).to.have.length(0);
  });

  it('reserve what it costs to keep their input in the cache for an hour where they ask for that', async () => {
    upstream.script = json(200, message);
    const send = (ttl: '5m' | '1h') => {
      const cache_control = { type: 'ephemeral' as const, ttl };
      const system = [{ type: 'text' as const, text: 'x'.repeat(400_000), cache_control }];
      return client.messages.create({ ...ask, model: 'real', system }).catch((thrown) => thrown);
    };
    // 100,000 tokens at 75, and at 120
    expect((await send('1h')).error?.error).to.include({ code: 'insufficient_credits', param: 'messages' });
    expect(await send('5m')).to.include({ id: 'msg_1' });
  });

  it('are refused beyond a limit, and their client reads when it may go on', () =>
    whileClockStands(async () => {
      upstream.script = json(200, message);
      const first = await client.messages.create({ ...ask, model: 'claude' }).withResponse();
      expect(first.response.headers.get('anthropic-ratelimit-requests-remaining')).to.equal('1');
      await client.messages.create({ ...ask, model: 'claude' });
      const error = await client.messages.create({ ...ask, model: 'claude' }).catch((thrown) => thrown);
      expect(error).to.be.instanceOf(Anthropic.RateLimitError).with.property('type', 'rate_limit_error');
      expect(error.headers.get('retry-after')).to.match(/^\d+$/);
      expect(error.headers.get('anthropic-ratelimit-requests-reset')).to.match(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/);
    }));
});
