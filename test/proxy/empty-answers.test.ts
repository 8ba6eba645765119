import { expect } from 'chai';
import OpenAI, { toFile } from 'openai';
import type { UsageRecord } from '../../src/index.ts';
import { type ModelServer, startModelServer } from '../support/model-server.ts';
import { until } from '../support/until.ts';
import { chunks, json, reset, type Script, ScriptedUpstream } from '../support/upstream.ts';

const ask = { model: 'm', messages: [{ role: 'user' as const, content: 'Hi' }] };
const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const well = { id: 'c', object: 'chat.completion', choices: [{ index: 0, message: { content: 'Hi' } }], usage };
const done = 'data: [DONE]\n\n';
const said = (fields: unknown) => `data: ${JSON.stringify(fields)}\n\n`;
const text = said({ choices: [{ index: 0, delta: { content: 'Hi' } }] });
const wellStreamed = chunks([text, said({ choices: [], usage }), done]);
const streamType = { 'content-type': 'text/event-stream' };
const bytes = (body: string, type: string) => json(200, Buffer.from(body), { 'content-type': type });

/** What a call is rejected with; `undefined` if it is not. */
function thrownBy(call: () => Promise<unknown>): Promise<unknown> {
  return call().then(
    () => undefined,
    (error: unknown) => error,
  );
}

describe('an answer with the status 200 that says nothing', () => {
  let first: ScriptedUpstream;
  let second: ScriptedUpstream;
  let records: UsageRecord[];
  let failures: string[];
  let answered: () => void;
  const servers: ModelServer[] = [];

  before(async () => {
    first = await ScriptedUpstream.start();
    second = await ScriptedUpstream.start();
  });

  beforeEach(() => {
    records = [];
    failures = [];
    answered = () => {};
    for (const upstream of [first, second]) upstream.requests.length = 0;
  });

  afterEach(() => Promise.all(servers.splice(0).map((server) => server.close())));

  after(async () => {
    await first.close();
    await second.close();
  });

  /** The official client of a gateway of its own: no breaker and no budget of retries is shared. */
  async function clientOver(...upstreams: ScriptedUpstream[]): Promise<OpenAI> {
    const server = await startModelServer({
      upstreams: upstreams.map(({ baseUrl }, i) => ({
        name: ['first', 'second'][i] as string,
        baseUrl,
        priority: i,
        includeUsage: false,
      })),
      hooks: { onUsage: (record) => void records.push(record), onResponse: () => answered() },
      observers: [
        {
          upstreamAnswered() {},
          upstreamFailed: (upstream, code) => void failures.push(`${upstream} ${code}`),
          usageCounted() {},
        },
      ],
    });
    servers.push(server);
    return server.client();
  }

  async function stream(client: OpenAI): Promise<string> {
    let answer = '';
    for await (const { choices } of await client.chat.completions.create({ ...ask, stream: true })) {
      answer += choices?.[0]?.delta?.content ?? '';
    }
    return answer;
  }

  async function expectFailedFirst(): Promise<void> {
    await until(() => records.length > 0);
    expect(records.map(({ upstream }) => upstream)).to.deep.equal(['second']);
    expect(failures).to.deep.equal(['first invalid_response']);
    expect([first.requests.length, second.requests.length]).to.deep.equal([1, 1]);
  }

  async function expectRefused(call: Promise<unknown>): Promise<void> {
    const error = await thrownBy(() => call);
    expect(error).to.be.instanceOf(OpenAI.APIError).and.include({ status: 502, code: 'upstream_invalid_response' });
    expect(failures).to.deep.equal(['first invalid_response']);
    expect([first.requests.length, records]).to.deep.equal([1, []]);
  }

  const bodies: [what: string, script: Script][] = [
    ...[null, {}, [], 'ok', 1, { detail: 'Not ready' }, { choices: null }, { choices: [] }, [{ detail: 'no' }]].map(
      (body): [string, Script] => [JSON.stringify(body), json(200, body)],
    ),
    ['nothing', json(200, Buffer.alloc(0))],
    ['nothing, in parts', chunks([' ', '\n'], { 'content-type': 'application/json' })],
    ['a page', bytes('<html>Hello</html>', 'text/html')],
    ['no content', (res) => void res.writeHead(204).end()],
  ];
  for (const [what, script] of bodies) {
    it(`is a failed attempt, so that the next upstream answers: ${what}`, async () => {
      first.script = script;
      second.script = json(200, well);
      const answer = await (await clientOver(first, second)).chat.completions.create(ask);
      expect(answer.choices[0]?.message.content).to.equal('Hi');
      await expectFailedFirst();
      expect(records[0]).to.include({ inputTokens: 3, outputTokens: 2, ending: 'complete' });
    });

    it(`is 502, and nothing is charged, where no other upstream answers: ${what}`, async () => {
      first.script = script;
      await expectRefused((await clientOver(first)).chat.completions.create(ask));
    });
  }

  const streams: [what: string, script: Script][] = [
    ...[null, {}, [], 'ok', { detail: 'Not ready' }, { choices: null }, { choices: [], usage }].map(
      (event): [string, Script] => [JSON.stringify(event), chunks([said(event), done])],
    ),
    ['nothing but its end', chunks([done])],
    ['nothing at all', chunks([])],
    ['comments', chunks([': keep-alive\n\n', ': keep-alive\n\n'])],
    ['such an event without an end', chunks(['data: {}'])],
    ['a body in the place of the stream', json(200, { detail: 'Not ready' })],
  ];
  for (const [what, script] of streams) {
    it(`is a failed attempt as a stream: ${what}`, async () => {
      first.script = script;
      second.script = wellStreamed;
      expect(await stream(await clientOver(first, second))).to.equal('Hi');
      await expectFailedFirst();
      records = [];
      failures = [];
      first.requests.length = 0;
      await expectRefused(stream(await clientOver(first)));
    });
  }

  const file = () => toFile(Buffer.alloc(8_000), 'a.mp3');
  const image = { data: [{ b64_json: 'QUJD' }] };
  const speak = { model: 'm', input: 'Hi', voice: 'v' };
  const endpoints: [string, well: Script, empty: Script[], call: (client: OpenAI) => Promise<unknown>][] = [
    [
      'text completions',
      json(200, { choices: [{ text: 'Hi' }] }),
      [json(200, {}), json(200, { choices: [] })],
      (client) => client.completions.create({ model: 'm', prompt: 'Hi' }),
    ],
    [
      'responses',
      json(200, { id: 'resp_1', output: [] }),
      [json(200, {}), json(200, { detail: 'no' })],
      (client) => client.responses.create({ model: 'm', input: 'Hi', store: false }),
    ],
    [
      'counted input',
      json(200, { input_tokens: 3 }),
      [json(200, {}), json(200, { object: 'response.input_tokens' })],
      (client) => client.responses.inputTokens.count({ model: 'm', input: 'Hi' }),
    ],
    [
      'embeddings',
      json(200, { data: [{ embedding: [1] }] }),
      [json(200, {}), json(200, { data: [] }), json(200, { object: 'list', data: null })],
      (client) => client.embeddings.create({ model: 'm', input: 'Hi', encoding_format: 'float' }),
    ],
    [
      'images',
      json(200, image),
      [json(200, { created: 1 }), json(200, { created: 1, data: [] })],
      (client) => client.images.generate({ model: 'm', prompt: 'a cat' }),
    ],
    [
      'edits of images',
      json(200, image),
      [json(200, {})],
      async (client) => client.images.edit({ model: 'm', prompt: 'a cat', image: await file() }),
    ],
    [
      'moderations',
      json(200, { results: [{ flagged: false }] }),
      [json(200, {}), json(200, { id: 'modr_1', results: [] })],
      (client) => client.moderations.create({ model: 'm', input: 'Hi' }),
    ],
    [
      'transcriptions',
      json(200, { text: '' }),
      [json(200, {}), json(200, null), json(200, { detail: 'no' }), json(200, Buffer.alloc(0))],
      async (client) => client.audio.transcriptions.create({ model: 'm', file: await file() }),
    ],
    [
      'translations',
      json(200, { text: 'Hi' }),
      [json(200, {}), bytes('', 'application/octet-stream')],
      async (client) => client.audio.translations.create({ model: 'm', file: await file() }),
    ],
    [
      'speech',
      bytes('RIFF', 'audio/wav'),
      [bytes('', 'audio/wav'), json(200, {}), json(200, 'ok'), chunks([], { 'content-type': 'audio/mpeg' })],
      async (client) => (await client.audio.speech.create(speak)).arrayBuffer(),
    ],
  ];
  for (const [what, script, empty, call] of endpoints) {
    it(`is a failed attempt of ${what}`, async () => {
      second.script = script;
      for (const nothing of empty) {
        for (const upstream of [first, second]) upstream.requests.length = 0;
        records = [];
        failures = [];
        first.script = nothing;
        await call(await clientOver(first, second));
        await expectFailedFirst();
      }
      records = [];
      failures = [];
      first.requests.length = 0;
      await expectRefused(call(await clientOver(first)));
    });
  }

  it('opens the breaker after five in a row', async () => {
    const client = await clientOver(first);
    first.script = json(200, {});
    for (let i = 0; i < 6; i += 1) await thrownBy(() => client.chat.completions.create(ask));
    expect(first.requests).to.have.length(5);
  });

  const late: [what: string, stream: boolean, begin: Script, rest: string][] = [
    ['a body', false, (res) => void res.writeHead(200, { 'content-type': 'application/json' }).write(' '), '{}'],
    ['a stream', true, (res) => void res.writeHead(200, streamType).write(': ping\n\n'), said({}) + done],
    ['a stream without an end', true, (res) => void res.writeHead(200, streamType).write(': ping\n\n'), said({})],
  ];
  for (const [what, isStream, begin, rest] of late) {
    it(`is an error that costs nothing where it is said only when the gateway waits no longer: ${what}`, async () => {
      first.script = async (res, request) => {
        const isAnswered = new Promise<void>((resolve) => {
          answered = resolve;
        });
        await begin(res, request);
        await isAnswered;
        res.end(rest);
      };
      const client = await clientOver(first);
      const error = await thrownBy(() => (isStream ? stream(client) : client.chat.completions.create(ask)));
      expect(error).to.be.instanceOf(OpenAI.APIError);
      await until(() => failures.length > 0);
      expect(failures).to.deep.equal(['first error_in_answer']);
      const charged = records.map(({ inputTokens, outputTokens, ending }) => [inputTokens, outputTokens, ending]);
      expect(charged).to.deep.equal(isStream ? [[0, 0, 'upstream_failed']] : []);
    });
  }

  it('costs nothing as a stream that breaks off before it has said something', async () => {
    first.script = reset(said({ choices: [] }));
    await thrownBy(async () => stream(await clientOver(first)));
    await until(() => records.length > 0);
    expect(records[0]).to.include({ inputTokens: 0, outputTokens: 0, ending: 'upstream_failed' });
  });

  const streamed: [what: string, parts: string[]][] = [
    ["Azure's, which first says what it thinks of the prompt", [said({ choices: [], prompt_filter_results: [{}] })]],
    ["Anthropic's, with pings", [said({ type: 'ping' }), 'event: ping\ndata: {}\n\n']],
    ['one that keeps its connection with empty chunks', [said({}), said({ choices: [] }), ': wait\n\n']],
    ['one whose JSON goes on in the next line', ['data: {"choices":\ndata: [{"delta":{}}]}\n\n']],
  ];
  for (const [what, begin] of streamed) {
    it(`is not what a stream begins with: ${what}`, async () => {
      const parts = [...begin, text, done];
      first.script = chunks(parts);
      const client = await clientOver(first);
      const answer = await client.chat.completions.create({ ...ask, stream: true }).asResponse();
      expect(await answer.text()).to.equal(parts.join(''));
      await until(() => records.length > 0);
      expect([records[0]?.ending, failures]).to.deep.equal(['complete', []]);
    });
  }

  const others: [what: string, path: string, script: Script][] = [
    ['a result one level deeper', '/chat/completions', json(200, { code: 0, data: { choices: [{}] } })],
    ['the texts of llama.cpp', '/completions', json(200, { content: 'Hi', stop: true })],
    ['a list of them', '/completions', json(200, [{ content: '' }, { content: 'Hi' }])],
    ['a list of vectors', '/embeddings', json(200, [{ index: 0, embedding: [[1, 2]] }])],
    ['images under another name', '/images/generations', json(200, { images: [{ url: 'https://a.example/' }] })],
    ['a response without output', '/responses', json(200, { id: 'resp_1', status: 'incomplete' })],
    ['speech in JSON', '/audio/speech', json(200, { audio: 'QUJD' })],
    ['speech that is labelled JSON', '/audio/speech', bytes('RIFF', 'application/json')],
  ];
  for (const [what, path, script] of others) {
    it(`is not what providers answer in another way: ${what}`, async () => {
      first.script = script;
      const body = { ...ask, prompt: 'Hi', input: 'Hi', voice: 'v', store: false };
      const answer = await (await clientOver(first)).post(path, { body }).asResponse();
      expect(answer.status).to.equal(200);
      expect((await answer.arrayBuffer()).byteLength).to.be.greaterThan(0);
      expect(failures).to.deep.equal([]);
    });
  }

  const transcripts: [what: string, script: Script][] = [
    ['no text', bytes('', 'text/plain; charset=utf-8')],
    ['a line', bytes('\n', 'application/octet-stream')],
    ['a text in JSON', json(200, 'Hi')],
    ['segments', json(200, { segments: [{ text: 'Hi' }] })],
  ];
  for (const [what, script] of transcripts) {
    it(`is not the transcript of a recording: ${what}`, async () => {
      first.script = script;
      const client = await clientOver(first);
      await client.audio.transcriptions.create({ model: 'm', file: await file(), response_format: 'text' });
      await until(() => records.length > 0);
      expect([records[0]?.ending, failures]).to.deep.equal(['complete', []]);
    });
  }
});
