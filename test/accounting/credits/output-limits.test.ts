import { expect } from 'chai';
import OpenAI from 'openai';
import { responseOf } from '../../stored/support.ts';
import { type LiveGateway, startGateway } from '../../support/gateway.ts';
import { json, ScriptedUpstream } from '../../support/upstream.ts';

const chat = { choices: [{ index: 0, message: { role: 'assistant', content: 'Tagus' }, finish_reason: 'stop' }] };

describe('the limit of an output that is reserved for', () => {
  let upstream: ScriptedUpstream;
  let gateway: LiveGateway;
  let client: OpenAI;
  before(async () => {
    upstream = await ScriptedUpstream.start();
    gateway = await startGateway({
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }],
      credits: { prices: { '*': { output: 1_000 } }, expectedOutputTokens: 2_000, initialBalance: 1 },
    });
    client = new OpenAI({ apiKey: gateway.key, baseURL: `${gateway.url}/v1`, maxRetries: 0 });
  });
  after(async () => {
    await gateway.close();
    await upstream.close();
  });

  const calls = {
    '/chat/completions': { messages: [{ role: 'user', content: 'Hi' }] },
    '/completions': { prompt: 'Hi' },
    '/responses': { input: 'Hi', store: false },
  };
  const limits = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'];
  for (const [path, body] of Object.entries(calls)) {
    const own = { '/completions': ['max_tokens'], '/responses': ['max_output_tokens'] }[path] ?? limits.slice(0, 2);
    for (const limit of limits) {
      const counts = own.includes(limit);
      it(`${counts ? 'lets' : 'does not let'} ${limit} make a call of ${path} cheaper`, async () => {
        upstream.script = json(200, path === '/responses' ? responseOf('resp_1') : { ...chat, usage: {} });
        const answer = client.post(path, { body: { model: 'm', ...body, [limit]: 1 } });
        const outcome = await answer.then(
          () => 'admitted',
          ({ code }) => code,
        );
        expect(outcome).to.equal(counts ? 'admitted' : 'insufficient_credits');
      });
    }
  }
});
