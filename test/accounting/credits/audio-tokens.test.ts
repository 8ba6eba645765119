import { expect } from 'chai';
import OpenAI, { toFile } from 'openai';
import type { ModelGatewayOptions } from '../../../src/index.ts';
import { realtimeUsage, respond, SocketUpstream } from '../../sockets/socket-upstream.ts';
import { SocketClient, startSocketGateway } from '../../sockets/support.ts';
import { type LiveAccount, startAccount } from '../../support/account.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';
import { events, json } from '../../support/upstream.ts';

/** In credits for a million tokens: a token of each kind costs a power of ten in micro-credits. */
const price = {
  input: 1,
  cachedInput: 10,
  audioInput: 100,
  cachedAudioInput: 1_000,
  output: 10_000,
  audioOutput: 100_000,
};
const credits: ModelGatewayOptions['credits'] = {
  prices: { '*': price, plain: { input: 1, output: 10_000 } },
  initialBalance: 1_000,
};
const messages = [{ role: 'user' as const, content: 'Hi' }];
/** Of text: input 1, cached 2, output 1; of audio: input 3, cached 2, output 4. */
const mixed = 1 + 2 * 10 + 3 * 100 + 2 * 1_000 + 10_000 + 4 * 100_000;

describe('tokens of audio, over HTTP', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let account: LiveAccount;
  let client: OpenAI;
  let userId: string;
  let accounts = 0;

  before(async () => {
    database = await freshDatabase();
    account = await startAccount({}, { mongo: database.connection, credits });
  });
  beforeEach(async () => {
    accounts += 1;
    userId = `usr_audio_${accounts}`;
    const { key } = await account.live.gateway.keys.create({ userId });
    client = new OpenAI({ apiKey: key, baseURL: `${account.live.url}/v1`, maxRetries: 0 });
  });
  after(async () => {
    await account?.close();
    await database.drop();
  });

  /** What one call has cost, in micro-credits, and its line of usage over HTTP. */
  async function charged() {
    const { apiKey, baseURL } = client;
    const get = async (path: string) =>
      (await fetch(baseURL + path, { headers: { authorization: `Bearer ${apiKey}` } })).json() as Promise<
        // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape it asks for
        any
      >;
    await until(async () => (await get('/usage')).data[0]?.requests === 1);
    const [line] = (await get('/usage')).data;
    return { line, cost: Math.round((1_000 - (await get('/credits')).credits_remaining) * 1e6) };
  }

  const usage = {
    prompt_tokens: 8,
    completion_tokens: 5,
    total_tokens: 13,
    prompt_tokens_details: { audio_tokens: 5, cached_tokens: 4, cached_tokens_details: { audio_tokens: 2 } },
    completion_tokens_details: { audio_tokens: 4, reasoning_tokens: 0 },
  };

  it('of a chat have prices of their own, and are shown in the usage of their account', async () => {
    account.upstream.script = json(200, {
      id: 'c',
      choices: [{ index: 0, message: {}, finish_reason: 'stop' }],
      usage,
    });
    await client.chat.completions.create({ model: 'gpt-audio', messages });
    const { cost, line } = await charged();
    expect(cost).to.equal(mixed);
    const audio = { input_audio_tokens: 5, cached_input_audio_tokens: 2, output_audio_tokens: 4 };
    expect(line).to.include({ input_tokens: 8, cached_input_tokens: 4, output_tokens: 5, ...audio });
  });

  it('of a chat that is streamed cost the same', async () => {
    const choices = [{ index: 0, delta: { content: 'a' }, finish_reason: 'stop' }];
    account.upstream.script = events([{ choices }, { choices: [], usage }]);
    for await (const _ of await client.chat.completions.create({ model: 'gpt-audio', messages, stream: true }));
    expect((await charged()).cost).to.equal(mixed);
  });

  it('cost what text does where their model has no price for them', async () => {
    account.upstream.script = json(200, {
      id: 'c',
      choices: [{ index: 0, message: {}, finish_reason: 'stop' }],
      usage,
    });
    await client.chat.completions.create({ model: 'plain', messages });
    const { cost, line } = await charged();
    expect(cost).to.equal(8 + 5 * 10_000);
    expect(line).to.include({ input_audio_tokens: 5, output_audio_tokens: 4 });
  });

  it('of a transcription have their price', async () => {
    const details = { input_token_details: { text_tokens: 1, audio_tokens: 9 } };
    const used = { type: 'tokens', input_tokens: 10, output_tokens: 2, total_tokens: 12, ...details };
    account.upstream.script = json(200, { text: 'a', usage: used });
    const file = await toFile(Buffer.alloc(100), 'talk.mp3');
    await client.audio.transcriptions.create({ model: 'gpt-4o-transcribe', file });
    expect((await charged()).cost).to.equal(1 + 9 * 100 + 2 * 10_000);
  });

  it('of speech have their price', async () => {
    const used = { input_tokens: 3, output_tokens: 7, total_tokens: 10, output_tokens_details: { audio_tokens: 7 } };
    account.upstream.script = events([
      { type: 'speech.audio.delta', audio: 'AA' },
      { type: 'speech.audio.done', usage: used },
    ]);
    const speech = { model: 'gpt-4o-mini-tts', input: 'Hi', voice: 'alloy', stream_format: 'sse' } as const;
    await (await client.audio.speech.create(speech)).text();
    expect((await charged()).cost).to.equal(3 + 7 * 100_000);
  });

  it('that nobody tells apart cost the higher price, as where a chat says no usage', async () => {
    account.upstream.script = json(200, { id: 'c', choices: [{ index: 0, message: {}, finish_reason: 'stop' }] });
    await client.chat.completions.create({ model: 'gpt-audio', messages });
    const { cost, line } = await charged();
    expect(cost).to.equal(line.input_tokens * 100 + line.output_tokens * 100_000);
    expect(line).to.not.have.property('output_audio_tokens');
  });
});

describe('tokens of audio, in a realtime session', () => {
  let upstream: SocketUpstream;
  let gateway: Awaited<ReturnType<typeof startSocketGateway>>;

  before(async () => {
    upstream = await SocketUpstream.start();
    gateway = await startSocketGateway({ upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }], credits });
  });
  after(async () => {
    await gateway.close();
    await upstream.close();
  });

  it('have prices of their own, cached or not', async () => {
    const usage = {
      ...realtimeUsage,
      ...{ input_tokens: 8, output_tokens: 5, total_tokens: 13 },
      input_token_details: {
        ...{ text_tokens: 3, audio_tokens: 5, cached_tokens: 4 },
        cached_tokens_details: { text_tokens: 2, audio_tokens: 2 },
      },
      output_token_details: { text_tokens: 1, audio_tokens: 4 },
    };
    upstream.onEvent = ({ type }, socket) => {
      if (type === 'response.create') respond(socket, 'a', usage);
    };
    const client = await SocketClient.open(`${gateway.url}/realtime?model=gpt-realtime`, gateway.key);
    client.send({ type: 'response.create' });
    const [record] = await gateway.charged(1);
    expect(record).to.include({ inputAudioTokens: 5, cachedInputAudioTokens: 2, outputAudioTokens: 4 });
    const left = async () => (await gateway.gateway.credits?.balance('usr_1'))?.creditsRemaining ?? 0;
    await until(async () => Math.round((1_000 - (await left())) * 1e6) === mixed);
    client.socket.close();
    await client.whenClosed();
  });
});
