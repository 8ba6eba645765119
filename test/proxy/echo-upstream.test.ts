import { expect } from 'chai';
import OpenAI, { toFile } from 'openai';
import { startEchoUpstream } from '../support/echo/echo-upstream.ts';
import { createDemoStore } from '../support/echo/stored.ts';
import { type LiveGateway, startGateway } from '../support/gateway.ts';

const model = 'demo-echo';
const input = 'Hello, gateway';

describe('an upstream with all that OpenAI has, behind a gateway', () => {
  let upstream: Awaited<ReturnType<typeof startEchoUpstream>>;
  let live: LiveGateway;
  let client: OpenAI;

  before(async () => {
    upstream = await startEchoUpstream({ wordDelay: 0 });
    live = await startGateway({
      upstreams: [{ name: 'echo', baseUrl: upstream.baseUrl }],
      background: { pollInterval: 10 },
    });
    client = new OpenAI({ baseURL: `${live.url}/v1`, apiKey: live.key, maxRetries: 0 });
  });
  after(async () => {
    await live.close();
    await upstream.close();
  });

  const failure = (call: () => PromiseLike<unknown>) => Promise.resolve(call()).catch((error) => error);
  const isGone = async (call: () => PromiseLike<unknown>) => {
    expect(await failure(call)).to.be.instanceOf(OpenAI.NotFoundError);
  };

  it('stores a response until it is deleted', async () => {
    const response = await client.responses.create({ model, input, metadata: { team: 'a' } });
    expect(response.output_text).to.include(input).and.include('no language model');
    expect(response).to.include({ object: 'response', status: 'completed' });
    expect(response.usage?.input_tokens).to.equal(2);
    expect(response.usage?.total_tokens).to.equal(2 + (response.usage?.output_tokens ?? 0));
    const retrieved = await client.responses.retrieve(response.id);
    expect(retrieved.output).to.deep.equal(response.output);
    expect(retrieved.metadata).to.deep.equal({ team: 'a' });
    await client.responses.delete(response.id);
    await isGone(() => client.responses.retrieve(response.id));
  });

  it('replays the stream of a stored response from any event', async () => {
    const events: OpenAI.Responses.ResponseStreamEvent[] = [];
    for await (const event of client.responses.stream({ model, input })) events.push(event);
    const types = [...new Set(events.map(({ type }) => type))];
    expect(types).to.deep.equal([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
    ]);
    expect(events.map(({ sequence_number }) => sequence_number)).to.deep.equal(events.map((_, i) => i));
    const deltas = events.filter((event) => event.type === 'response.output_text.delta');
    const last = events.at(-1) as OpenAI.Responses.ResponseCompletedEvent;
    const [item] = last.response.output as [OpenAI.Responses.ResponseOutputMessage];
    expect(deltas.map(({ delta }) => delta).join('')).to.equal((item.content[0] as { text: string }).text);
    expect(deltas).to.have.length(last.response.usage?.output_tokens ?? 0);
    const again = [];
    const resumed = { stream: true, starting_after: events.length - 3 } as const;
    for await (const event of await client.responses.retrieve(last.response.id, resumed)) again.push(event);
    expect(again.map(({ type }) => type)).to.deep.equal(['response.output_item.done', 'response.completed']);
  });

  it('does not store a response with `store: false`', async () => {
    const { id } = await client.responses.create({ model, input, store: false });
    await isGone(() => client.responses.retrieve(id));
  });

  it('continues from an earlier response, and lists the input items of both', async () => {
    const first = await client.responses.create({ model, input });
    const second = await client.responses.create({ model, input: 'And again', previous_response_id: first.id });
    expect(second.output_text).to.include('And again').and.not.include(input);
    expect(second.usage?.input_tokens).to.equal(2 + (first.usage?.output_tokens ?? 0) + 2);
    const items = [];
    for await (const item of client.responses.inputItems.list(second.id, { order: 'asc', limit: 2 })) items.push(item);
    expect(items.map((item) => (item as { role?: string }).role)).to.deep.equal(['user', 'assistant', 'user']);
    const { data } = await client.responses.inputItems.list(second.id);
    expect(data.map(({ id }) => id)).to.deep.equal(items.map(({ id }) => id).reverse());
  });

  it('counts input tokens, and ends at max_output_tokens', async () => {
    const request = { model, input: [{ role: 'user' as const, content: 'one two three' }] };
    expect(await client.responses.inputTokens.count(request)).to.include({ input_tokens: 3 });
    const short = await client.responses.create({ ...request, max_output_tokens: 2 });
    expect(short.status).to.equal('incomplete');
    expect(short.incomplete_details).to.deep.equal({ reason: 'max_output_tokens' });
    expect(short.usage?.output_tokens).to.equal(2);
  });

  it('makes a response in the background', async () => {
    const queued = await client.responses.create({ model, input, background: true });
    expect(queued).to.include({ status: 'queued', output_text: '' });
    const ended = await client.responses.retrieve(queued.id);
    expect(ended).to.include({ status: 'completed', background: true });
  });

  it('stores a conversation that responses add to', async () => {
    const message = { type: 'message' as const, role: 'user' as const, content: 'Hi' };
    const { id } = await client.conversations.create({ items: [message], metadata: { team: 'a' } });
    const { data: added } = await client.conversations.items.create(id, { items: [message, message] });
    expect(added.map(({ type }) => type)).to.deep.equal(['message', 'message']);
    await client.responses.create({ model, input, conversation: id });
    const { data } = await client.conversations.items.list(id, { order: 'asc' });
    expect(data.map((item) => (item as { role?: string }).role)).to.deep.equal([
      ...['user', 'user', 'user', 'user', 'assistant'],
    ]);
    const item = data[1]?.id ?? '';
    expect(await client.conversations.items.retrieve(item, { conversation_id: id })).to.deep.equal(data[1]);
    await client.conversations.items.delete(item, { conversation_id: id });
    await isGone(() => client.conversations.items.retrieve(item, { conversation_id: id }));
    expect((await client.conversations.update(id, { metadata: { team: 'b' } })).metadata).to.deep.equal({ team: 'b' });
    expect((await client.conversations.retrieve(id)).metadata).to.deep.equal({ team: 'b' });
    expect(await client.conversations.delete(id)).to.include({ id, deleted: true });
    await isGone(() => client.conversations.retrieve(id));
  });

  it('stores a chat completion with `store: true`, streamed too', async () => {
    const messages = [{ role: 'user' as const, content: input }];
    const metadata = { team: 'a' };
    const made = await client.chat.completions.create({ model, messages, metadata, store: true });
    const { choices } = await client.chat.completions.retrieve(made.id);
    expect(choices).to.deep.equal(made.choices);
    const stream = await client.chat.completions.create({ model, messages, metadata, store: true, stream: true });
    let streamed = '';
    for await (const chunk of stream) streamed = chunk.id;
    const { data } = await client.chat.completions.list({ metadata });
    expect(data.map(({ id }) => id)).to.deep.equal([made.id, streamed]);
    const { data: kept } = await client.chat.completions.messages.list(made.id);
    expect(kept.map(({ role, content }) => ({ role, content }))).to.deep.equal(messages);
    const updated = await client.chat.completions.update(made.id, { metadata: { team: 'b' } });
    expect(updated).to.deep.include({ id: made.id, metadata: { team: 'b' } });
    await client.chat.completions.delete(made.id);
    await isGone(() => client.chat.completions.retrieve(made.id));
  });

  it('edits and varies images', async () => {
    const image = await toFile(Buffer.from('bytes of a file'), 'a.png', { type: 'image/png' });
    const { data: edited } = await client.images.edit({ model, image, prompt: 'at night', n: 2 });
    const named = { model, prompt: 'at night', images: [{ image_url: 'https://images.example.com/a.png' }] };
    expect(await client.post('/images/edits', { body: named })).to.have.nested.property('data.length', 1);
    expect(edited).to.have.length(2);
    const { data: varied } = await client.images.createVariation({ model, image });
    expect(Buffer.from(varied?.[0]?.b64_json ?? '', 'base64').toString('latin1', 1, 4)).to.equal('PNG');
  });

  it('draws a PNG', async () => {
    const { data } = await client.images.generate({ model, prompt: 'a cat', n: 2, response_format: 'b64_json' });
    expect(data).to.have.length(2);
    const png = Buffer.from(data?.[0]?.b64_json ?? '', 'base64');
    expect(png.subarray(1, 4).toString()).to.equal('PNG');
    expect(png.readUInt32BE(16)).to.equal(16);
    expect(png.subarray(-8, -4).toString()).to.equal('IEND');
  });

  it('completes a text, streamed too', async () => {
    const { choices, usage } = await client.completions.create({ model, prompt: input });
    expect(choices[0]?.text).to.include('Hello, gateway');
    expect(usage?.prompt_tokens).to.equal(2);
    const options = { model, prompt: input, stream: true, stream_options: { include_usage: true } } as const;
    const chunks = [];
    for await (const chunk of await client.completions.create(options)) chunks.push(chunk);
    expect(chunks.map((chunk) => chunk.choices[0]?.text ?? '').join('')).to.equal(choices[0]?.text);
    expect(chunks.at(-1)?.usage).to.deep.equal(usage);
  });

  it('answers speech with a tone, and transcriptions with a fixed text', async () => {
    const spoken = await client.audio.speech.create({ model, voice: 'alloy', input: 'Hello' });
    const wav = Buffer.from(await spoken.arrayBuffer());
    expect([wav.toString('latin1', 0, 4), wav.readUInt32LE(4)]).to.deep.equal(['RIFF', wav.length - 8]);
    for (const path of ['transcriptions', 'translations'] as const) {
      const file = new File([new Uint8Array(wav)], 'speech.wav');
      const { text } = await client.audio[path].create({ model, file });
      expect(text).to.include('hears nothing');
    }
  });

  it('flags nothing in moderation', async () => {
    const { results } = await client.moderations.create({ model, input: ['one', 'two'] });
    expect(results.map(({ flagged }) => flagged)).to.deep.equal([false, false]);
  });

  it('answers 404 for another model and 400 for an invalid input', async () => {
    const direct = new OpenAI({ baseURL: upstream.baseUrl, apiKey: 'any', maxRetries: 0 });
    await isGone(() => direct.responses.create({ model: 'gpt-5', input }));
    for (const wrong of [7, [null], ['Hi']]) {
      const error = await failure(() => direct.responses.create({ model, input: wrong as never }));
      expect(error).to.be.instanceOf(OpenAI.BadRequestError);
    }
  });
});

describe('the memory of the echo upstream', () => {
  it('drops the oldest items above a number and a size, and any single item that is too large', () => {
    const { chats } = createDemoStore();
    const chat = (id: string, text = '') => ({ completion: { id, text }, messages: [] });
    for (let i = 0; i <= 1_000; i += 1) chats.set(`c${i}`, chat(`c${i}`));
    expect(chats.all()).to.have.length(1_000);
    expect(() => chats.get('c0')).to.throw('There is no chat completion');
    const large = 'x'.repeat(9 * 1024 * 1024);
    chats.set('large', chat('large', large));
    chats.set('larger', chat('larger', large));
    expect(chats.all().map(({ completion }) => completion.id)).to.deep.equal(['larger']);
    chats.set('largest', chat('largest', large + large));
    expect(chats.all()).to.deep.equal([]);
  });
});
