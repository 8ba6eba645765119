import { expect } from 'chai';
import OpenAI, { toFile } from 'openai';
import { type ModelServer, startModelServer } from '../../support/model-server.ts';
import { reset, ScriptedUpstream } from '../../support/upstream.ts';
import { ownedByAll } from './endpoint-calls.ts';

const messages = [{ role: 'user' as const, content: 'Hi' }];
const event = (fields: object) => `data: ${JSON.stringify(fields)}\n\n`;
const created = event({
  type: 'response.created',
  sequence_number: 0,
  response: { id: 'resp_1', object: 'response', created_at: 7, status: 'in_progress', model: 'm', output: [] },
});
const file = toFile(Buffer.from('RIFF'), 'a.wav');

/** How clients call each endpoint that streams, and the first event of its stream. */
const streams: [what: string, first: string, call: (client: OpenAI) => Promise<AsyncIterable<object>>][] = [
  [
    'a chat',
    event({ choices: [{ index: 0, delta: { content: 'Hel' } }] }),
    (client) => client.chat.completions.create({ model: 'm', messages, stream: true }),
  ],
  [
    'a text completion',
    event({ choices: [{ index: 0, text: 'Hel' }] }),
    (client) => client.completions.create({ model: 'm', prompt: 'Hi', stream: true }),
  ],
  [
    'generated images',
    event({ type: 'image_generation.partial_image', b64_json: 'QQ==' }),
    (client) => client.images.generate({ model: 'm', prompt: 'Hi', stream: true }),
  ],
  [
    'edited images',
    event({ type: 'image_edit.partial_image', b64_json: 'QQ==' }),
    async (client) => client.images.edit({ model: 'm', prompt: 'Hi', image: await file, stream: true }),
  ],
  [
    'a transcription',
    event({ type: 'transcript.text.delta', delta: 'Hel' }),
    async (client) => client.audio.transcriptions.create({ model: 'm', file: await file, stream: true }),
  ],
  ['a response that is streamed again', created, (client) => client.responses.retrieve('resp_1', { stream: true })],
];

describe('a stream that breaks off', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    server = await startModelServer({
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
      storedObjects: ownedByAll('one'),
    });
  });

  after(async () => {
    await server.close();
    await upstream.close();
  });

  for (const [what, first, call] of streams) {
    it(`of ${what} makes the official client throw the reason`, async () => {
      upstream.script = reset(first);
      const shown: object[] = [];
      let thrown: unknown;
      try {
        for await (const part of await call(server.client())) shown.push(part);
      } catch (error) {
        thrown = error;
      }
      expect(shown).to.have.length(1);
      expect(thrown).to.be.instanceOf(OpenAI.APIError).with.property('code', 'upstream_disconnected');
      expect(thrown).to.have.property('message').that.includes('closed the connection before its answer was complete');
    });
  }

  it('of a response gives the official client response.failed with the reason and the response', async () => {
    upstream.script = reset(created);
    const shown: OpenAI.Responses.ResponseStreamEvent[] = [];
    const stream = await server.client().responses.create({ model: 'm', input: 'Hi', stream: true });
    for await (const part of stream) shown.push(part);
    const last = shown.at(-1);
    if (last?.type !== 'response.failed') throw new Error('the stream should have failed');
    expect(last.sequence_number).to.equal(1);
    expect(last.response).to.deep.include({ id: 'resp_1', created_at: 7, model: 'm', status: 'failed', output: [] });
    expect(last.response.error?.code).to.equal('upstream_disconnected');
    expect(last.response.error?.message).to.include('closed the connection before its answer was complete');
  });

  it('of a response knows its id also where the first event repeats a long request', async () => {
    const long = created.replace('"object"', `"instructions":"${'x'.repeat(50_000)}","object"`);
    upstream.script = reset(long);
    const stream = await server.client().responses.create({ model: 'm', input: 'Hi', stream: true });
    let last: OpenAI.Responses.ResponseStreamEvent | undefined;
    for await (const part of stream) last = part;
    expect(last).to.have.property('type', 'response.failed');
    expect(last).to.have.nested.property('response.id', 'resp_1');
  });

  it('of speech holds the reason as an event, which its readers parse themselves', async () => {
    upstream.script = reset(event({ type: 'speech.audio.delta', audio: 'QQ==' }));
    const response = await server
      .client()
      .audio.speech.create({ model: 'm', input: 'Hi', voice: 'v', stream_format: 'sse' });
    const last = (await response.text()).trimEnd().split('\n\n').at(-1) ?? '';
    expect(JSON.parse(last.replace(/^data: /, '')).error).to.include({ code: 'upstream_disconnected' });
  });
});
