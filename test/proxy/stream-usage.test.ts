import { expect } from 'chai';
import type { UsageRecord } from '../../src/index.ts';
import { recordingLogger } from '../support/logger.ts';
import { type ModelServer, startModelServer } from '../support/model-server.ts';
import { until } from '../support/until.ts';
import { chunks, json, type Script, ScriptedUpstream, stall } from '../support/upstream.ts';

const messages = [{ role: 'user' as const, content: 'Hi' }];
const said = (fields: object) => `data: ${JSON.stringify(fields)}\n\n`;
const text = said({ id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: 'Hello' } }] });
const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const done = 'data: [DONE]\n\n';

describe('the usage of a stream that the client did not ask for', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  let records: UsageRecord[];
  let logger: ReturnType<typeof recordingLogger>;

  before(async () => {
    upstream = await ScriptedUpstream.start();
  });
  after(() => upstream.close());

  beforeEach(async () => {
    records = [];
    logger = recordingLogger();
    upstream.requests.length = 0;
    server = await startModelServer({
      upstreams: [{ name: 'strict', baseUrl: upstream.baseUrl }],
      hooks: { onUsage: (record) => void records.push(record) },
      logger,
    });
  });
  afterEach(() => server.close());

  async function chat(fields: object = {}): Promise<object[]> {
    const stream = await server.client().chat.completions.create({ model: 'm', messages, stream: true, ...fields });
    const shown: object[] = [];
    for await (const chunk of stream) shown.push(chunk);
    return shown;
  }

  const bodies = () => upstream.requests.map(({ body }) => JSON.parse(body.toString()));

  for (const [how, fields] of [
    ['an empty list', { choices: [] }],
    ['null', { choices: null }],
    ['absent', {}],
  ] as const) {
    it(`does not reach the client where its choices are ${how}, and is metered`, async () => {
      upstream.script = chunks([text, said({ id: 'c', ...fields, usage }), done]);
      const shown = await chat();
      expect(shown).to.have.length(1);
      expect(shown[0]).to.have.nested.property('choices[0].delta.content', 'Hello');
      await until(() => records.length === 1);
      expect(records[0]).to.include({ inputTokens: 3, outputTokens: 2, estimated: false });
      expect(await chat({ stream_options: { include_usage: true } })).to.have.length(2);
    });
  }

  const leaveAfter = async (count: number): Promise<UsageRecord | undefined> => {
    const stream = await server.client().chat.completions.create({ model: 'm', messages, stream: true });
    let shown = 0;
    for await (const _ of stream) {
      shown += 1;
      if (shown === count) break;
    }
    await until(() => records.length === 1);
    return records[0];
  };
  const river = (fields: object = {}) =>
    said({ id: 'c', choices: [{ index: 0, delta: { content: 'The Tagus flows. ' } }], ...fields });

  it('is no end of the answer where it comes before it, and the client leaves in between', async () => {
    const first = said({
      id: 'c',
      choices: [{ index: 0, delta: { role: 'assistant' } }],
      usage: { ...usage, completion_tokens: 0 },
    });
    upstream.script = stall(first + river().repeat(50));
    const record = await leaveAfter(51);
    expect(record).to.include({ inputTokens: 3, estimated: true, ending: 'client_left' });
    expect(record?.outputTokens).to.be.greaterThan(200);
  });

  it('is exact up to where the client leaves where each event has it', async () => {
    const parts = Array.from({ length: 50 }, (_, i) =>
      river({ usage: { prompt_tokens: 3, completion_tokens: 4 * (i + 1) } }),
    );
    upstream.script = stall(parts.join(''));
    expect(await leaveAfter(50)).to.include({ inputTokens: 3, outputTokens: 200, estimated: false });
  });

  const refusals: [what: string, status: number, body: unknown][] = [
    ['names the field', 400, { error: { message: "Unrecognized request argument supplied: 'stream_options'" } }],
    ['names it as invalid input', 422, { detail: [{ loc: ['body', 'stream_options'], msg: 'Extra inputs' }] }],
    ['names nothing', 400, { error: { message: 'Bad request' } }],
    ['has the status 200', 200, { error: { message: 'Unknown field include_usage', code: 400 } }],
  ];
  for (const [what, status, body] of refusals) {
    it(`is done without where the upstream refuses to tell it, in an answer that ${what}`, async () => {
      const strict: Script = (res, request) =>
        (request.body.includes('stream_options') ? json(status, body) : chunks([text, done]))(res, request);
      upstream.script = strict;
      expect(await chat()).to.have.length(1);
      expect(await chat()).to.have.length(1);
      // the second call is not refused any more
      expect(bodies().map((sent) => sent.stream_options)).to.deep.equal([
        { include_usage: true },
        undefined,
        undefined,
      ]);
      await until(() => records.length === 2);
      for (const record of records) expect(record).to.include({ estimated: true, ending: 'complete' });
      const lines = logger.lines.filter(({ message }) => message.includes('includeUsage: false'));
      expect(lines).to.have.length(1);
      expect(lines[0]?.fields).to.deep.equal({ upstream: 'strict' });
    });
  }

  it('is not what a call was refused for that is refused without it too', async () => {
    upstream.script = json(400, { error: { message: 'no such role', code: 'theirs' } });
    const thrown = await chat().then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(thrown).to.include({ status: 400, code: 'theirs' });
    upstream.script = chunks([text, said({ choices: [], usage }), done]);
    await chat();
    expect(bodies().at(-1).stream_options).to.deep.equal({ include_usage: true });
    // an upstream that has told it before is not asked twice when it refuses something else
    const { length } = upstream.requests;
    upstream.script = json(400, { error: { message: 'no such role' } });
    await chat().catch(() => {});
    expect(upstream.requests).to.have.length(length + 1);
  });

  it('is asked for again where the call was not accepted without it either, though the answer names the field', async () => {
    upstream.script = (res, request) =>
      (request.body.includes('stream_options')
        ? json(400, { error: { message: 'stream_options is not supported' } })
        : json(429, { error: { message: 'slow down' } }, { 'x-should-retry': 'false' }))(res, request);
    await chat().catch(() => {});
    upstream.script = chunks([text, said({ choices: [], usage }), done]);
    await chat();
    expect(bodies().at(-1).stream_options).to.deep.equal({ include_usage: true });
    expect(logger.lines.filter(({ message }) => message.includes('includeUsage: false'))).to.deep.equal([]);
  });

  it('is done without for one model though another of the same upstream tells it', async () => {
    upstream.script = (res, request) => {
      const { model, stream_options: asked } = JSON.parse(request.body.toString());
      const answer = asked ? chunks([text, said({ choices: [], usage }), done]) : chunks([text, done]);
      const isRefused = model === 'strict' && asked;
      return (isRefused ? json(400, { error: { message: 'Bad request' } }) : answer)(res, request);
    };
    await chat({ model: 'open' });
    expect(await chat({ model: 'strict' })).to.have.length(1);
    expect(bodies().map(({ model, stream_options: asked }) => [model, asked !== undefined])).to.deep.equal([
      ['open', true],
      ['strict', true],
      ['strict', false],
    ]);
  });

  it('is not what the client itself has asked for: then the refusal is relayed', async () => {
    upstream.script = json(400, { error: { message: 'stream_options is not supported', code: 'theirs' } });
    const thrown = await chat({ stream_options: { include_usage: true } }).catch((error: unknown) => error);
    expect(thrown).to.include({ status: 400, code: 'theirs' });
    expect(upstream.requests).to.have.length(1);
  });

  it('is told for one model where the upstream refuses to tell it for another', async () => {
    upstream.script = (res, request) => {
      const refuses = request.body.includes('"older"') && request.body.includes('stream_options');
      return (refuses ? json(400, { error: { message: 'stream_options' } }) : chunks([text, done]))(res, request);
    };
    await chat();
    await chat({ model: 'older' });
    await chat();
    expect(bodies().at(-1)).to.deep.include({ model: 'm', stream_options: { include_usage: true } });
    await chat({ model: 'older' });
    expect(bodies().at(-1)).not.to.have.property('stream_options');
  });

  it('is still asked for after a refusal that repeats what the caller wrote, and an error of another kind', async () => {
    upstream.script = chunks([text, done]);
    await chat();
    upstream.script = (res, request) => {
      const isPlain = !request.body.includes('include_usage');
      return (isPlain ? json(429, { error: {} }) : json(400, { error: { message: 'no tool "stream_options"' } }))(
        res,
        request,
      );
    };
    await chat().catch(() => {});
    upstream.script = chunks([text, done]);
    await chat();
    expect(bodies().at(-1).stream_options).to.deep.equal({ include_usage: true });
  });
});
