import { crc32, inflateSync } from 'node:zlib';
import Anthropic from '@anthropic-ai/sdk';
import { expect } from 'chai';
import OpenAI from 'openai';
import { startDemoUpstream } from '../../../src/cli/demo/demo-upstream.ts';
import type { DemoUpstream } from '../../../src/cli/demo/server.ts';
import { type LiveGateway, startGateway } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';

/** Reads a PNG of three bytes a pixel (W3C PNG, third edition). */
function pixelsOf(png: Buffer) {
  expect(png.toString('latin1', 0, 8)).to.equal('\x89PNG\r\n\x1a\n');
  const parts = new Map<string, Buffer>();
  for (let at = 8; at < png.length; ) {
    const end = at + 8 + png.readUInt32BE(at);
    expect(png.readUInt32BE(end)).to.equal(crc32(png.subarray(at + 4, end)));
    parts.set(png.toString('latin1', at + 4, at + 8), png.subarray(at + 8, end));
    at = end + 4;
  }
  expect([...parts.keys()]).to.deep.equal(['IHDR', 'IDAT', 'IEND']);
  const [head, data] = [...parts.values()] as [Buffer, Buffer, Buffer];
  const [width, height] = [head.readUInt32BE(0), head.readUInt32BE(4)];
  const pixels = inflateSync(data);
  expect(pixels).to.have.length(height * (1 + 3 * width));
  return { width, height, pixels };
}

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

  it('answers responses with the same echo, and their usage', async () => {
    const { choices } = await client.chat.completions.create({ model, messages });
    const response = await client.responses.create({ model, input: 'Hello, gateway' });
    expect(response.output_text).to.equal(choices[0]?.message.content);
    expect(response).to.include({ object: 'response', status: 'completed', model });
    expect(response.usage).to.include({ input_tokens: 2, output_tokens: response.output_text.split(' ').length });
    const next = { model, input: 'And again', previous_response_id: response.id, max_output_tokens: 3 };
    expect(await client.responses.create(next)).to.include({ status: 'incomplete', output_text: 'This is demo-echo,' });
  });

  it('streams a response, a word each', async () => {
    const whole = await client.responses.create({ model, input: 'Hello, gateway' });
    const stream = client.responses.stream({ model, input: 'Hello, gateway' });
    const words: string[] = [];
    for await (const event of stream) if (event.type === 'response.output_text.delta') words.push(event.delta);
    expect(words.join('')).to.equal(whole.output_text);
    const { output_text, usage } = await stream.finalResponse();
    expect(output_text).to.equal(whole.output_text);
    expect(words).to.have.length(usage?.output_tokens ?? 0);
  });

  it('draws a small picture, as base64 or as a URL that needs no other server', async () => {
    const { data = [], usage } = await client.images.generate({ model, prompt: 'a red square', n: 2 });
    const [one, two] = data.map(({ b64_json }) => Buffer.from(b64_json ?? '', 'base64'));
    expect(one?.equals(two as Buffer)).to.equal(false);
    expect(usage).to.include({ input_tokens: 3, output_tokens: 2, total_tokens: 5 });
    const request = { model, prompt: 'a red square', response_format: 'url' } as const;
    const [{ url = '' } = {}] = (await client.images.generate(request)).data ?? [];
    expect(url).to.equal(`data:image/png;base64,${one?.toString('base64')}`);
    expect(pixelsOf(one as Buffer)).to.deep.include({ width: 16, height: 16 });
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

  it('orders documents by how many words of the query they have', async () => {
    const documents = ['A recipe for bread', { text: 'Ships lie in the harbour, at anchor' }, 'The harbour'];
    const body = { model, query: 'Where do ships lie at anchor?', documents, top_n: 2 };
    expect(await client.post('/rerank', { body })).to.deep.include({
      results: [
        { index: 1, relevance_score: 4 / 6 },
        { index: 0, relevance_score: 0 },
      ],
      meta: { billed_units: { search_units: 1 } },
      usage: { prompt_tokens: 19, total_tokens: 19 },
    });
  });

  it('lists its one model', async () => {
    const { data } = await client.models.list();
    expect(data.map(({ id }) => id)).to.deep.equal([model]);
    expect((await client.models.retrieve(model)).owned_by).to.equal('demo');
  });

  it("answers 404 for another model, as OpenAI's client reads it", async () => {
    for (const call of [
      () => client.chat.completions.create({ model: 'gpt-4o', messages }),
      () => client.responses.create({ model: 'gpt-4o', input: 'x' }),
      () => client.embeddings.create({ model: 'gpt-4o', input: 'x' }),
      () => client.images.generate({ model: 'gpt-4o', prompt: 'x' }),
      () => client.post('/rerank', { body: { model: 'gpt-4o', query: 'x', documents: ['x'] } }),
      () => client.models.retrieve('gpt-4o'),
    ]) {
      const error = await call().catch((thrown) => thrown);
      expect(error).to.be.instanceOf(OpenAI.NotFoundError);
      expect(error).to.include({ code: 'model_not_found', param: 'model' });
    }
  });

  it('answers 404 to whatever else OpenAI has', async () => {
    const error = await client.moderations.create({ model, input: 'Hello' }).catch((thrown) => thrown);
    expect(error).to.be.instanceOf(OpenAI.NotFoundError);
    expect(error.message).to.include('The demo has no POST /v1/moderations').and.to.include('UPSTREAM_BASE_URL');
  });

  it('answers 400 to an invalid request', async () => {
    const url = `${upstream.baseUrl}/chat/completions`;
    for (const body of ['{', '[]', 'null', '{"model":"demo-echo"}', '{"model":"demo-echo","messages":[]}']) {
      const response = await fetch(url, { method: 'POST', body });
      expect(response.status, body).to.equal(400);
      expect(((await response.json()) as { error: { message: string } }).error.message).to.be.a('string');
    }
    for (const call of [
      () => client.responses.create({ model, input: [null] as never }),
      () => client.embeddings.create({ model, input: [] }),
      () => client.images.generate({ model, prompt: '' }),
      () => client.images.generate({ model, prompt: 'x', n: 11 }),
      () => client.post('/rerank', { body: { model, documents: ['x'] } }),
      () => client.post('/rerank', { body: { model, query: 'x', documents: [] } }),
    ]) {
      expect(await call().catch((thrown) => thrown)).to.be.instanceOf(OpenAI.BadRequestError);
    }
  });
});

describe('the demo upstream behind a gateway', () => {
  let upstream: DemoUpstream;
  let live: LiveGateway;
  let client: OpenAI;
  const model = 'demo-echo';

  before(async () => {
    upstream = await startDemoUpstream({ wordDelay: 0 });
    const speaks = ['openai', 'anthropic'] as const;
    live = await startGateway({ upstreams: [{ name: 'demo', baseUrl: upstream.baseUrl, speaks }] });
    client = new OpenAI({ baseURL: `${live.url}/v1`, apiKey: live.key, maxRetries: 0 });
  });
  after(async () => {
    await live.close();
    await upstream.close();
  });

  it('echoes messages to the clients of Anthropic, whole and streamed, and counts their tokens', async () => {
    const { key } = await live.gateway.keys.create({ userId: 'usr_messages' });
    const anthropic = new Anthropic({ baseURL: live.url, apiKey: key, maxRetries: 0 });
    const messages = [{ role: 'user' as const, content: 'Hello, gateway' }];
    const message = await anthropic.messages.create({ model, max_tokens: 100, messages });
    expect(JSON.stringify(message.content)).to.include('Hello, gateway').and.include('no language model');
    expect([message.stop_reason, message.usage.input_tokens]).to.deep.equal(['end_turn', 2]);
    const streamed = await anthropic.messages.stream({ model, max_tokens: 100, messages }).finalMessage();
    expect(streamed.content).to.deep.equal(message.content);
    expect(streamed.usage).to.include(message.usage);
    const short = await anthropic.messages.create({ model, max_tokens: 3, messages });
    expect([short.stop_reason, short.usage.output_tokens]).to.deep.equal(['max_tokens', 3]);
    expect(await anthropic.messages.countTokens({ model, messages })).to.deep.include({ input_tokens: 2 });
    const unknown = await anthropic.messages
      .create({ model: 'other', max_tokens: 3, messages })
      .catch((error) => error);
    expect(unknown).to.be.instanceOf(Anthropic.NotFoundError).with.property('type', 'not_found_error');
  });

  it('has what a newcomer tries first, and the gateway counts what it says was used', async () => {
    const messages = [{ role: 'user' as const, content: 'Hello, gateway' }];
    const chat = await client.chat.completions.create({ model, messages });
    const tokens = chat.usage?.completion_tokens as number;
    let chatted = '';
    for await (const { choices } of await client.chat.completions.create({ model, messages, stream: true })) {
      chatted += choices[0]?.delta.content ?? '';
    }
    expect(chatted).to.equal(chat.choices[0]?.message.content);

    const response = await client.responses.create({ model, input: 'Hello, gateway' });
    expect(response.output_text).to.equal(chatted);
    const next = client.responses.stream({ model, input: 'Hello, gateway', previous_response_id: response.id });
    expect((await next.finalResponse()).output_text).to.equal(chatted);

    const { data: vectors } = await client.embeddings.create({ model, input: 'Hello, gateway' });
    expect(vectors[0]?.embedding).to.have.length(64);
    const { data: images = [] } = await client.images.generate({ model, prompt: 'Hello, gateway' });
    expect(pixelsOf(Buffer.from(images[0]?.b64_json ?? '', 'base64'))).to.include({ width: 16 });
    const body = { model, query: 'Hello', documents: ['gateway'] };
    expect(await client.post('/rerank', { body })).to.deep.include({ results: [{ index: 0, relevance_score: 0 }] });
    expect((await client.models.list()).data.map(({ id }) => id)).to.deep.equal([model]);

    const answers = [tokens, tokens, tokens, tokens, 0, 1, 0];
    const usage = async () => (await live.call('GET', '/v1/usage?group_by=model')).body.data[0] ?? {};
    await until(async () => (await usage()).requests === answers.length);
    const inputTokens = 2 * answers.length;
    const outputTokens = answers.reduce((sum, used) => sum + used);
    expect(await usage()).to.include({ input_tokens: inputTokens, output_tokens: outputTokens, units: 1 });
  });
});
