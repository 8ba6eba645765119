import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, streamText } from 'ai';
import { expect } from 'chai';
import compression from 'compression';
import OpenAI, { toFile } from 'openai';
import { callerKey, type ModelServer, startModelServer } from '../support/model-server.ts';
import { chunks, events, hang, inTurn, json, reset, ScriptedUpstream } from '../support/upstream.ts';

const head = { id: 'c', created: 1, model: 'm' };
const usage = { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 };
const choice = (message: object, index = 0, rest: object = {}) => ({
  index,
  message: { role: 'assistant', content: null, refusal: null, ...message },
  finish_reason: 'stop',
  logprobs: null,
  ...rest,
});
const completion = (...choices: object[]) => ({ ...head, object: 'chat.completion', choices, usage });
const chunk = (delta: object, rest: object = {}) => ({
  ...head,
  object: 'chat.completion.chunk',
  choices: [{ index: 0, delta, finish_reason: null, ...rest }],
});
const user = (content: string) => ({ role: 'user' as const, content });

describe('official clients', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  let client: OpenAI;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    server = await startModelServer({
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
      retry: { attempts: 1 },
    });
    client = server.client();
  });

  after(async () => {
    await server.close();
    await upstream.close();
  });

  const sent = () => JSON.parse(upstream.last.body.toString());

  it('call tools, streamed and not', async () => {
    const tool_calls = [{ id: 't', type: 'function', function: { name: 'weather', arguments: '{"city":"Porto"}' } }];
    const tools = [{ type: 'function' as const, function: { name: 'weather', parameters: { type: 'object' } } }];
    upstream.script = json(200, completion(choice({ tool_calls }, 0, { finish_reason: 'tool_calls' })));
    const answer = await client.chat.completions.create({ model: 'm', messages: [user('Weather?')], tools });
    expect(answer.choices[0]?.message.tool_calls).to.deep.equal(tool_calls);
    expect(sent().tools).to.deep.equal(tools);

    const fn = (text: string) => chunk({ tool_calls: [{ index: 0, function: { arguments: text } }] });
    upstream.script = events([
      chunk({
        role: 'assistant',
        tool_calls: [{ index: 0, id: 't', type: 'function', function: { name: 'weather', arguments: '' } }],
      }),
      fn('{"city"'),
      fn(':"Porto"}'),
      chunk({}, { finish_reason: 'tool_calls' }),
    ]);
    const final = await client.chat.completions
      .stream({ model: 'm', messages: [user('Weather?')], tools })
      .finalChatCompletion();
    expect(final.choices[0]?.message.tool_calls?.[0]).to.have.nested.property('function.arguments', '{"city":"Porto"}');
  });

  it('get JSON by a schema, log probabilities and several answers', async () => {
    const logprobs = { content: [{ token: 'a', logprob: -0.5, bytes: [97], top_logprobs: [] }], refusal: null };
    upstream.script = json(
      200,
      completion(choice({ content: '{"a":1}' }, 0, { logprobs }), choice({ content: '{"a":2}' }, 1)),
    );
    const request = {
      model: 'm',
      messages: [user('JSON')],
      n: 2,
      logprobs: true,
      top_logprobs: 3,
      response_format: { type: 'json_schema' as const, json_schema: { name: 'a', schema: { type: 'object' } } },
    };
    const answer = await client.chat.completions.create(request);
    expect(sent()).to.deep.equal(request);
    expect(answer.choices).to.have.lengthOf(2);
    expect(answer.choices[0]?.logprobs).to.deep.equal(logprobs);
  });

  it('stream JSON by a schema, log probabilities and several answers', async () => {
    const logprobs = { content: [{ token: '{', logprob: -0.5, bytes: [123], top_logprobs: [] }], refusal: null };
    const part = (index: number, content: string) => chunk({ content }, { index, logprobs });
    upstream.script = events([part(0, '{"a"'), part(1, '{"a"'), part(1, ':2}'), part(0, ':1}')]);
    const request = {
      model: 'm',
      messages: [user('JSON')],
      n: 2,
      logprobs: true,
      stream: true as const,
      response_format: { type: 'json_schema' as const, json_schema: { name: 'a', schema: { type: 'object' } } },
    };
    const answers = ['', ''];
    let seen = 0;
    for await (const { choices } of await client.chat.completions.create(request)) {
      for (const { index, delta, logprobs: found } of choices) {
        answers[index] = `${answers[index]}${delta.content}`;
        expect(found).to.deep.equal(logprobs);
        seen += 1;
      }
    }
    expect([answers, seen]).to.deep.equal([['{"a":1}', '{"a":2}'], 4]);
    expect(sent()).to.deep.equal({ ...request, stream_options: { include_usage: true } });
  });

  it('list the models, and retrieve one whose id has slashes', async () => {
    const model = { id: 'meta/llama-4/scout', object: 'model', created: 7, owned_by: 'meta' };
    upstream.script = json(200, { object: 'list', data: [model] });
    expect((await client.models.list()).data).to.deep.equal([model]);
    expect(await client.models.retrieve(model.id)).to.deep.include(model);
  });

  it('send images in a message', async () => {
    upstream.script = json(200, completion(choice({ content: 'A harbour' })));
    const content = [
      { type: 'text' as const, text: 'What is it?' },
      { type: 'image_url' as const, image_url: { url: 'data:image/png;base64,iVBORw0KGgo=', detail: 'low' as const } },
    ];
    await client.chat.completions.create({ model: 'm', messages: [{ role: 'user', content }] });
    expect(sent().messages[0].content).to.deep.equal(content);
  });

  it('get the usage of a stream when they ask for it, and only then', async () => {
    upstream.script = events([
      chunk({ content: 'a' }),
      { ...head, object: 'chat.completion.chunk', choices: [], usage },
    ]);
    const collect = async (stream_options?: { include_usage: boolean }) => {
      const stream = await client.chat.completions.create({
        model: 'm',
        messages: [user('Hi')],
        stream: true,
        ...(stream_options && { stream_options }),
      });
      const seen = [];
      for await (const part of stream) seen.push(part.usage ?? null);
      return seen;
    };
    expect(await collect({ include_usage: true })).to.deep.equal([null, usage]);
    expect(await collect()).to.deep.equal([null]);
  });

  it('complete text, streamed and not', async () => {
    const text = {
      ...head,
      object: 'text_completion',
      choices: [{ index: 0, text: ' world', logprobs: null, finish_reason: 'stop' }],
    };
    upstream.script = json(200, text);
    expect((await client.completions.create({ model: 'm', prompt: 'Hello' })).choices[0]?.text).to.equal(' world');
    expect(upstream.last.path).to.equal('/v1/completions');
    upstream.script = events([text, text]);
    let streamed = '';
    for await (const part of await client.completions.create({ model: 'm', prompt: 'Hello', stream: true }))
      streamed += part.choices[0]?.text;
    expect(streamed).to.equal(' world world');
  });

  it('edit and vary images that they upload', async () => {
    const file = await toFile(Buffer.alloc(3_000_000, 7), 'harbour.png', { type: 'image/png' });
    upstream.script = json(200, { created: 1, data: [{ b64_json: 'AA' }] });
    const edited = await client.images.edit({ model: 'm', image: file, prompt: 'At night' });
    expect(edited.data?.[0]?.b64_json).to.equal('AA');
    expect(upstream.last.path).to.equal('/v1/images/edits');
    expect(upstream.last.headers['content-type']).to.match(/^multipart\/form-data; boundary=/);
    expect(upstream.last.body.includes(Buffer.alloc(3_000_000, 7))).to.equal(true);
    await client.images.createVariation({ model: 'm', image: file });
    expect(upstream.last.path).to.equal('/v1/images/variations');
  });

  it('stream an image while it is generated', async () => {
    const frame = (type: string) => `event: ${type}\ndata: {"type":"${type}","b64_json":"${'A'.repeat(50_000)}"}\n\n`;
    upstream.script = chunks([frame('image_generation.partial_image'), frame('image_generation.completed')]);
    const seen = [];
    for await (const event of await client.images.generate({ model: 'm', prompt: 'A harbour', stream: true }))
      seen.push(event.type);
    expect(seen).to.deep.equal(['image_generation.partial_image', 'image_generation.completed']);
  });

  it('get vectors from an upstream that ignores their request for base64', async () => {
    upstream.script = json(200, {
      object: 'list',
      data: [{ object: 'embedding', index: 0, embedding: [0.25, -0.5] }],
      model: 'm',
      usage,
    });
    const answer = await client.embeddings.create({ model: 'm', input: 'text' });
    expect(answer.data[0]?.embedding).to.deep.equal([0.25, -0.5]);
  });

  it('time out, and the call to the upstream is aborted', async () => {
    upstream.script = hang;
    const calls = upstream.requests.length;
    const error = await client.chat.completions
      .create({ model: 'm', messages: [user('Hi')] }, { timeout: 1_000 })
      .catch((thrown) => thrown);
    expect(error).to.be.instanceOf(OpenAI.APIConnectionTimeoutError);
    expect(await (await upstream.received(calls + 1)).closed).to.equal(false);
  });

  it('retry a rate limit and a dropped connection of the upstream', async () => {
    upstream.script = inTurn(
      json(429, { error: {} }, { 'retry-after-ms': '5' }),
      reset(),
      json(200, completion(choice({ content: 'at last' }))),
    );
    const answer = await server
      .client({ maxRetries: 2 })
      .chat.completions.create({ model: 'm', messages: [user('Hi')] });
    expect(answer.choices[0]?.message.content).to.equal('at last');
  });

  it("of Vercel's AI SDK chat and stream", async () => {
    const model = createOpenAICompatible({ name: 'gateway', baseURL: server.baseUrl, apiKey: callerKey })('m');
    upstream.script = json(200, completion(choice({ content: 'Hello' })));
    const { text, usage: used } = await generateText({ model, prompt: 'Hi' });
    expect([text, used.totalTokens]).to.deep.equal(['Hello', 8]);
    upstream.script = events([
      chunk({ role: 'assistant', content: 'Hel' }),
      chunk({ content: 'lo' }, { finish_reason: 'stop' }),
    ]);
    expect(await streamText({ model, prompt: 'Hi' }).text).to.equal('Hello');
  });

  it("get a stream at once behind a host's compression()", async () => {
    const host = await startModelServer({ upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }] }, [compression()]);
    try {
      // each event is sent when the one before has reached the client: one that is held back would never come
      let seen: () => void = () => {};
      upstream.script = async (res) => {
        res.writeHead(200, { 'content-type': 'text/event-stream' });
        for (const content of ['a', 'b', 'c']) {
          const reached = new Promise<void>((resolve) => {
            seen = resolve;
          });
          res.write(`data: ${JSON.stringify(chunk({ content }))}\n\n`);
          await reached;
        }
        res.end('data: [DONE]\n\n');
      };
      const stream = await host.client().chat.completions.create({ model: 'm', messages: [user('Hi')], stream: true });
      let text = '';
      for await (const part of stream) {
        text += part.choices[0]?.delta.content;
        seen();
      }
      expect(text).to.equal('abc');
    } finally {
      await host.close();
    }
  });
});
