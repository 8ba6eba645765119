import { expect } from 'chai';
import OpenAI from 'openai';
import { startDemoUpstream } from '../../../src/cli/demo/demo-upstream.ts';
import type { DemoUpstream } from '../../../src/cli/demo/server.ts';

describe('the demo upstream', () => {
  let upstream: DemoUpstream;
  let client: OpenAI;
  const model = 'demo-echo';
  const messages = [{ role: 'user' as const, content: 'Hello, gateway' }];

  before(async () => {
    upstream = await startDemoUpstream({ wordDelay: 0 });
    client = new OpenAI({ baseURL: upstream.baseUrl, apiKey: 'any', maxRetries: 0 });
  });
  after(() => upstream.close());

  it('echoes what was said and says that it is an echo', async () => {
    const { choices, usage } = await client.chat.completions.create({ model, messages });
    expect(choices[0]?.message.content).to.include('Hello, gateway').and.include('no language model');
    expect(choices[0]?.finish_reason).to.equal('stop');
    expect(usage?.prompt_tokens).to.equal(2);
    expect(usage?.total_tokens).to.equal((usage?.prompt_tokens ?? 0) + (usage?.completion_tokens ?? 0));
  });

  it('streams the same words, one chunk each', async () => {
    const whole = await client.chat.completions.create({ model, messages });
    const stream = await client.chat.completions.create({ model, messages, stream: true });
    const pieces: string[] = [];
    for await (const chunk of stream) {
      expect(chunk).not.to.have.property('usage');
      pieces.push(chunk.choices[0]?.delta.content ?? '');
    }
    expect(pieces.join('')).to.equal(whole.choices[0]?.message.content);
    expect(pieces.filter(Boolean)).to.have.length(whole.usage?.completion_tokens ?? 0);
  });

  it('limits its answer to 10,000 words', async () => {
    const said = `a${' '.repeat(400_000)}${'b '.repeat(20_000)}`;
    const { usage } = await client.chat.completions.create({ model, messages: [{ role: 'user', content: said }] });
    expect(usage).to.include({ prompt_tokens: 20_001, completion_tokens: 10_000 });
  });

  it('ends a stream with the usage when asked', async () => {
    const options = { model, messages, stream: true, stream_options: { include_usage: true } } as const;
    const chunks = [];
    for await (const chunk of await client.chat.completions.create(options)) chunks.push(chunk);
    expect(chunks.at(-1)).to.deep.include({ choices: [] });
    expect(chunks.at(-1)?.usage?.prompt_tokens).to.equal(2);
    expect(chunks.slice(0, -1).every((chunk) => chunk.usage === null)).to.equal(true);
  });

  it('stops at max_tokens', async () => {
    const { choices, usage } = await client.chat.completions.create({ model, messages, max_tokens: 3 });
    expect(choices[0]?.finish_reason).to.equal('length');
    expect(usage?.completion_tokens).to.equal(3);
  });

  it('gives the same text the same vector, in base64 as in floats', async () => {
    const input = ['one', 'two'];
    const inBase64 = await client.embeddings.create({ model, input });
    const inFloats = await client.embeddings.create({ model, input, encoding_format: 'float' });
    expect(inBase64.data).to.deep.equal(inFloats.data);
    const [one, two] = inFloats.data;
    expect(one?.embedding).to.have.length(64).and.not.deep.equal(two?.embedding);
    expect(Math.hypot(...(one?.embedding ?? []))).to.be.closeTo(1, 1e-6);
  });

  it('gives as many dimensions as asked', async () => {
    const { data } = await client.embeddings.create({ model, input: 'x', dimensions: 7 });
    expect(data[0]?.embedding).to.have.length(7);
  });

  it('lists its one model', async () => {
    const { data } = await client.models.list();
    expect(data.map(({ id }) => id)).to.deep.equal([model]);
    expect((await client.models.retrieve(model)).owned_by).to.equal('demo');
  });

  it("answers 404 for another model, as OpenAI's client reads it", async () => {
    for (const call of [
      () => client.chat.completions.create({ model: 'gpt-4o', messages }),
      () => client.embeddings.create({ model: 'gpt-4o', input: 'x' }),
      () => client.models.retrieve('gpt-4o'),
    ]) {
      const error = await call().catch((thrown) => thrown);
      expect(error).to.be.instanceOf(OpenAI.NotFoundError);
      expect(error).to.include({ code: 'model_not_found', param: 'model' });
    }
  });

  it('answers 404 to whatever else OpenAI has', async () => {
    const error = await client.responses.create({ model, input: 'Hello' }).catch((thrown) => thrown);
    expect(error).to.be.instanceOf(OpenAI.NotFoundError);
    expect(error.message).to.include('The demo has no POST /v1/responses').and.to.include('UPSTREAM_BASE_URL');
  });

  it('answers 400 to an invalid request', async () => {
    const url = `${upstream.baseUrl}/chat/completions`;
    for (const body of ['{', '[]', 'null', '{"model":"demo-echo"}', '{"model":"demo-echo","messages":[]}']) {
      const response = await fetch(url, { method: 'POST', body });
      expect(response.status, body).to.equal(400);
      expect(((await response.json()) as { error: { message: string } }).error.message).to.be.a('string');
    }
  });
});
