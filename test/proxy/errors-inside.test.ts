import { expect } from 'chai';
import OpenAI from 'openai';
import type { UsageRecord } from '../../src/index.ts';
import { recordingLogger } from '../support/logger.ts';
import { callerKey, type ModelServer, startModelServer } from '../support/model-server.ts';
import { until } from '../support/until.ts';
import { chunks, json, type Script, ScriptedUpstream } from '../support/upstream.ts';
import { allDialects, endpointCalls, ownedByAll, send } from './relay/endpoint-calls.ts';

const messages = [{ role: 'user' as const, content: 'Hi' }];
const refused = { error: { message: 'No endpoints found', code: 429 } };
const done = 'data: [DONE]\n\n';
const said = (fields: object) => `data: ${JSON.stringify(fields)}\n\n`;
const text = said({ choices: [{ index: 0, delta: { content: 'Hel' }, finish_reason: null }] });
const choice = (fields: object) => ({ id: 'c', object: 'chat.completion', choices: [{ index: 0, ...fields }] });
const failedChoice = choice({ message: { role: 'assistant', content: 'Hel' }, finish_reason: 'error' });
const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const well = json(200, { ...choice({ message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }), usage });
const wellStreamed = chunks([text, said({ choices: [], usage }), done]);
const failedResponse = { id: 'resp_1', object: 'response', status: 'failed', error: { code: 'server_error' } };
const event = (type: string, fields: object = {}) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: 0, ...fields })}\n\n`;

describe('an error in an answer with the status 200', () => {
  let first: ScriptedUpstream;
  let second: ScriptedUpstream;
  let records: UsageRecord[];
  let failures: string[];
  let logger: ReturnType<typeof recordingLogger>;
  const servers: ModelServer[] = [];

  before(async () => {
    first = await ScriptedUpstream.start();
    second = await ScriptedUpstream.start();
  });

  beforeEach(() => {
    records = [];
    failures = [];
    logger = recordingLogger();
    for (const upstream of [first, second]) upstream.requests.length = 0;
    second.script = json(500, {});
  });

  afterEach(() => Promise.all(servers.splice(0).map((server) => server.close())));

  after(async () => {
    await first.close();
    await second.close();
  });

  /** A gateway of its own: no breaker and no budget of retries is shared. */
  async function serverOver(count: 1 | 2, options: { attempts?: number; maskErrors?: boolean } = {}) {
    const server = await startModelServer({
      upstreams: [first, second].slice(0, count).map(({ baseUrl }, i) => ({
        name: ['first', 'second'][i] as string,
        baseUrl,
        speaks: allDialects,
        priority: i,
        includeUsage: false,
        ...(options.maskErrors && { maskErrors: true }),
      })),
      retry: { attempts: options.attempts ?? count },
      hooks: { onUsage: (record) => void records.push(record) },
      observers: [
        {
          upstreamAnswered() {},
          upstreamFailed: (upstream, code) => void failures.push(`${upstream} ${code}`),
          usageCounted() {},
        },
      ],
      storedObjects: ownedByAll('first'),
      logger,
    });
    servers.push(server);
    return server;
  }

  async function expectFree(): Promise<void> {
    await until(() => records.length > 0);
    expect(records).to.have.length(1);
    const { inputTokens, outputTokens, images, seconds, characters, estimated, ending } = records[0] as UsageRecord;
    expect([inputTokens, outputTokens, images, seconds, characters]).to.deep.equal([0, 0, 0, 0, 0]);
    expect({ estimated, ending }).to.deep.equal({ estimated: false, ending: 'upstream_failed' });
  }

  function ask(server: ModelServer, path: string, stream: boolean): Promise<Response> {
    const body = { model: 'm', prompt: 'Hi', input: 'Hi', messages, ...(stream && { stream }) };
    return fetch(server.baseUrl + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${callerKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  }

  const plain: [what: string, path: string, answer: unknown][] = [
    ['a body that is nothing else', '/chat/completions', refused],
    ['a body whose error is a text', '/chat/completions', { error: 'overloaded' }],
    ['a body with an error beside no result', '/completions', { id: 'c', choices: [], usage, ...refused }],
    ['a choice that ended in one', '/chat/completions', { ...failedChoice, usage }],
    ['a choice of a completion', '/completions', choice({ text: 'Hel', finish_reason: 'error' })],
    ['a response that has failed', '/responses', { ...failedResponse, output: [{ type: 'message' }], usage }],
    ['a code and a message beside no result', '/chat/completions', { code: 'daily_limit', message: 'used up' }],
    ['a code and a msg beside no result', '/embeddings', { code: 1113, msg: 'no balance', data: null }],
    [
      "MiniMax's status beside no result",
      '/chat/completions',
      { id: 'c', choices: null, usage, base_resp: { status_code: 1008, status_msg: 'insufficient balance' } },
    ],
    ['the place of vectors', '/embeddings', refused],
    ['the place of images', '/images/generations', refused],
  ];
  for (const [what, path, answer] of plain) {
    it(`is relayed byte for byte and costs nothing: ${what} (${path})`, async () => {
      const bytes = Buffer.from(`${JSON.stringify(answer)} \n`);
      first.script = json(200, bytes);
      const response = await ask(await serverOver(1), path, false);
      expect([response.status, await response.text()]).to.deep.equal([200, bytes.toString()]);
      await expectFree();
      expect(failures).to.deep.equal(['first error_in_answer']);
      expect(logger.lines[0]).to.deep.include({ level: 'warn', message: 'an upstream fails' });
      expect(logger.lines[0]?.fields).to.include({ upstream: 'first', reason: 'error_in_answer' });
    });
  }

  const streamed: [what: string, path: string, parts: string[]][] = [
    ['the first event', '/chat/completions', [said(refused), done]],
    ['the first event with data', '/chat/completions', [': keep-alive\n\n', 'event: ping\n\n', said(refused)]],
    ['an event of that name', '/chat/completions', ['event: error\ndata: {"message":"no"}\n\n']],
    ['a later event', '/chat/completions', [text, said(refused)]],
    ['a last event without its blank line', '/chat/completions', [text, said(refused).trimEnd()]],
    [
      'a choice that ended in one',
      '/chat/completions',
      [text, said(choice({ delta: {}, finish_reason: 'error' })), done],
    ],
    ['a choice of a completion', '/completions', [said(choice({ text: '', finish_reason: 'error' })), said({ usage })]],
    ['a response that has failed', '/responses', [event('response.failed', { response: failedResponse })]],
    [
      'a response that fails later, and repeats a long request',
      '/responses',
      [
        event('response.created', { response: { id: 'resp_1', status: 'in_progress', error: null } }),
        event('response.failed', { response: { ...failedResponse, instructions: 'x'.repeat(50_000) } }),
      ],
    ],
    ['the event error of a response', '/responses', [event('error', { code: 'server_error', message: 'no' })]],
    [
      'the event error of images',
      '/images/generations',
      [event('image_generation.partial_image', { b64_json: 'x' }), event('error', refused)],
    ],
  ];
  for (const [what, path, parts] of streamed) {
    it(`is relayed byte for byte and costs nothing: ${what} of a stream (${path})`, async () => {
      first.script = chunks(parts);
      const response = await ask(await serverOver(1), path, true);
      expect([response.status, await response.text()]).to.deep.equal([200, parts.join('')]);
      await expectFree();
      expect(failures).to.deep.equal(['first error_in_answer']);
    });
  }

  const context = { code: 400, message: 'exceeds the context', type: 'invalid_request_error' };
  const unframed: [what: string, parts: string[], begins: boolean][] = [
    ['JSON without data:', [JSON.stringify({ error: context })], true],
    ['JSON without data:, and a blank line', [`${JSON.stringify({ error: context })}\r\n\r\n`], true],
    ['a line error:, as llama.cpp had it', [`error: ${JSON.stringify(context)}\n\n`, done], true],
    ['such a line right behind a comment', [`: ping\nerror: ${JSON.stringify(context)}\n\n`, done], true],
    ['such a line after other events', [text, `error: ${JSON.stringify(context)}\n\n`, done], false],
  ];
  for (const [what, parts, begins] of unframed) {
    it(`becomes an event where it is in none: ${what}`, async () => {
      first.script = chunks(parts);
      second.script = wellStreamed;
      const answer = await (await ask(await serverOver(1), '/chat/completions', true)).text();
      const before = begins ? '' : text;
      const comment = parts[0]?.startsWith(':') ? ': ping\n' : '';
      expect(answer).to.equal(comment + before + said({ error: context }) + (parts.includes(done) ? done : ''));
      await expectFree();
      expect(failures).to.deep.equal([]);
      const other = await (await ask(await serverOver(2), '/chat/completions', true)).text();
      if (begins) expect(other).to.include('Hel').and.not.include('error');
      else expect(other).to.equal(answer);
    });
  }

  it('costs nothing on any metered endpoint', async () => {
    for (const call of endpointCalls.filter(({ isMetered }) => isMetered)) {
      records = [];
      const isStream = call.kind === 'stream';
      first.script = isStream ? chunks([said(refused)]) : json(200, refused);
      const response = await send((await serverOver(1)).baseUrl, call);
      expect(await response.text(), call.name).to.equal(isStream ? said(refused) : JSON.stringify(refused));
      await expectFree();
    }
  });

  it('is an error to the official client, plain or streamed', async () => {
    const client = (await serverOver(1)).client();
    first.script = chunks([said(refused)]);
    const stream = await client.chat.completions.create({ model: 'm', messages, stream: true });
    const thrown = await stream[Symbol.asyncIterator]()
      .next()
      .then(
        () => undefined,
        (error: unknown) => error,
      );
    expect(thrown).to.be.instanceOf(OpenAI.APIError).with.property('code', 429);
  });

  const begins: [what: string, stream: boolean, script: Script][] = [
    ['a whole body', false, json(200, refused)],
    [
      'a body that comes in parts',
      false,
      chunks([' ', ...(JSON.stringify(refused).match(/.{1,9}/g) ?? [])], { 'content-type': 'application/json' }, 5),
    ],
    ['an error that blames the request', false, json(200, { error: { message: 'no', code: 400 } })],
    ['the first event', true, chunks([said(refused), done])],
    ['the first event after comments', true, chunks([': keep-alive\n\n', ': keep-alive\n\n', said(refused)], {}, 20)],
    ['the first event of what is labelled JSON', true, chunks([said(refused)], { 'content-type': 'application/json' })],
    ['a body in the place of a stream', true, json(200, refused)],
  ];
  for (const [what, stream, script] of begins) {
    it(`is a failed attempt before anything was sent, and the next upstream answers: ${what}`, async () => {
      first.script = script;
      second.script = stream ? wellStreamed : well;
      const answer = await (await ask(await serverOver(2), '/chat/completions', stream)).text();
      expect(answer)
        .to.include(stream ? 'Hel' : '"content":"Hi"')
        .and.not.include('error');
      await until(() => records.length > 0);
      expect(records).to.have.length(1);
      expect(records[0]).to.include({ upstream: 'second', inputTokens: 3, outputTokens: 2, ending: 'complete' });
      expect([first.requests.length, second.requests.length]).to.deep.equal([1, 1]);
    });
  }

  it('is not tried elsewhere when something was sent, and the stream stays as it came', async () => {
    first.script = chunks([text, said(refused)]);
    second.script = wellStreamed;
    const answer = await (await ask(await serverOver(2), '/chat/completions', true)).text();
    expect(answer).to.equal(text + said(refused));
    expect(second.requests).to.have.length(0);
    await expectFree();
  });

  it('is tried again at the same upstream as the status that it names allows', async () => {
    first.script = json(200, { error: { message: 'too long', code: 400 } });
    await (await ask(await serverOver(1, { attempts: 3 }), '/chat/completions', false)).text();
    expect(first.requests).to.have.length(1);
    first.script = json(200, { error: { message: 'overloaded', code: 503 } });
    const answer = await (await ask(await serverOver(1, { attempts: 3 }), '/chat/completions', false)).json();
    expect(answer).to.deep.equal({ error: { message: 'overloaded', code: 503 } });
    expect(first.requests).to.have.length(4);
  });

  for (const [when, script, stream] of [
    ['at once', json(200, refused), false],
    ['in the midst of a stream', chunks([text, said(refused)]), true],
  ] as const) {
    it(`opens the breaker after five in a row: ${when}`, async () => {
      const server = await serverOver(1, { attempts: 1 });
      first.script = script;
      for (let i = 0; i < 5; i += 1) expect((await ask(server, '/chat/completions', stream)).status).to.equal(200);
      await until(() => records.length === 5);
      expect((await ask(server, '/chat/completions', stream)).status).to.equal(502);
      expect(first.requests).to.have.length(5);
    });
  }

  it('closes the breaker for no one whose calls end well in between', async () => {
    const server = await serverOver(1, { attempts: 1 });
    for (const script of [
      ...Array(4).fill(chunks([text, said(refused)])),
      wellStreamed,
      ...Array(4).fill(chunks([text, said(refused)])),
    ]) {
      first.script = script;
      await (await ask(server, '/chat/completions', true)).text();
    }
    first.script = wellStreamed;
    expect((await ask(server, '/chat/completions', true)).status).to.equal(200);
  });

  it('that blames the request does not count against the upstream', async () => {
    const server = await serverOver(1, { attempts: 1 });
    first.script = json(200, { error: { message: 'too long', code: 400 } });
    for (let i = 0; i < 7; i += 1) expect((await ask(server, '/chat/completions', false)).status).to.equal(200);
    expect(failures).to.deep.equal([]);
    expect(logger.lines).to.deep.equal([]);
  });

  const mistakes: [what: string, path: string, error: object][] = [
    ['its type', '/chat/completions', { type: 'invalid_request_error', code: null, message: 'no such role' }],
    ['the code of a prompt', '/responses', { code: 'invalid_prompt', message: 'against the usage policy' }],
    ['the code of a length', '/responses', { code: 'context_length_exceeded', message: 'too long' }],
    ['the code of a filter', '/completions', { code: 'content_filter', message: 'filtered' }],
    ['the code of an image', '/responses', { code: 'image_content_policy_violation', message: 'no' }],
  ];
  for (const [what, path, error] of mistakes) {
    it(`blames the request by ${what}, at once and later in a stream (${path})`, async () => {
      const server = await serverOver(1, { attempts: 1 });
      const id = { id: 'resp_1', object: 'response' };
      const late =
        path === '/responses'
          ? [
              event('response.created', { response: { ...id, status: 'in_progress', error: null } }),
              event('response.failed', { response: { ...id, status: 'failed', error } }),
            ]
          : [text, said({ error })];
      for (let i = 0; i < 7; i += 1) {
        const stream = i % 7 !== 0;
        first.script = stream ? chunks(late) : json(200, { error });
        const response = await ask(server, path, stream);
        expect([response.status, await response.text()]).to.deep.equal([
          200,
          stream ? late.join('') : JSON.stringify({ error }),
        ]);
      }
      await until(() => records.length === 7);
      expect(new Set(records.map(({ inputTokens, ending }) => `${inputTokens} ${ending}`))).to.deep.equal(
        new Set(['0 upstream_failed']),
      );
      expect(first.requests).to.have.length(7);
      expect([failures, logger.lines]).to.deep.equal([[], []]);
    });
  }

  it('blames the upstream where its type is that of a wrong request and its code that of a wrong key', async () => {
    first.script = json(200, { error: { type: 'invalid_request_error', code: 'invalid_api_key', message: 'no' } });
    await (await ask(await serverOver(1), '/chat/completions', false)).text();
    await until(() => failures.length > 0);
    expect(failures).to.deep.equal(['first error_in_answer']);
  });

  it('in the midst of a stream is logged once, until a stream ends well', async () => {
    const server = await serverOver(1, { attempts: 1 });
    const told = () => logger.lines.map(({ message }) => message);
    first.script = chunks([text, said(refused)]);
    for (let i = 0; i < 3; i += 1) await (await ask(server, '/chat/completions', true)).text();
    await until(() => failures.length === 3);
    expect(told()).to.deep.equal(['an upstream fails']);
    first.script = wellStreamed;
    await (await ask(server, '/chat/completions', true)).text();
    await until(() => records.length === 4);
    expect(told()).to.deep.equal(['an upstream fails', 'an upstream answers again']);
  });

  it('is masked where the errors of its upstream are', async () => {
    first.script = json(200, { error: { message: 'org-secret is out of quota', code: 429 } });
    const response = await ask(await serverOver(1, { maskErrors: true }), '/chat/completions', false);
    const answer = await response.text();
    expect(response.status).to.equal(429);
    expect(answer).to.include('upstream_rate_limited').and.not.include('org-secret');
    await expectFree();
  });

  const harmless: [what: string, path: string, stream: boolean, script: Script][] = [
    [
      'a text that says so',
      '/chat/completions',
      false,
      json(200, choice({ message: { content: '{"error":{}}' }, finish_reason: 'stop' })),
    ],
    [
      'metadata of that name',
      '/chat/completions',
      false,
      json(200, {
        ...choice({ message: {}, finish_reason: 'stop' }),
        metadata: { error: 'x', finish_reason: 'error' },
      }),
    ],
    [
      'what a response repeats',
      '/responses',
      true,
      chunks([
        event('response.created', {
          response: { id: 'resp_1', metadata: { type: 'error', status: 'failed', error: 'x' } },
        }),
        event('response.completed', {
          response: { id: 'resp_1', error: null, tools: [{ error: { type: 'response.failed' } }] },
        }),
      ]),
    ],
    [
      'a code and a message that say that all is well',
      '/chat/completions',
      false,
      json(200, {
        ...choice({ message: { content: '' }, finish_reason: 'stop' }),
        code: 0,
        message: 'ok',
        base_resp: { status_code: 0, status_msg: '' },
      }),
    ],
    [
      'a code and a message that are empty',
      '/chat/completions',
      false,
      json(200, { code: '', message: '', request_id: 'r_1', output: { finish_reason: 'stop' } }),
    ],
    [
      'a code and a message beside an object in the place of a result',
      '/chat/completions',
      false,
      json(200, { code: 'Success', message: 'ok', data: { text: 'Hi' } }),
    ],
    [
      'a code, a message and a status beside a result',
      '/chat/completions',
      false,
      json(200, {
        ...choice({ message: { content: 'Hi' }, finish_reason: 'stop' }),
        code: 'partial',
        message: 'a filter has looked at it',
        base_resp: { status_code: 1027, status_msg: 'sensitive' },
      }),
    ],
    [
      'a result beside it',
      '/chat/completions',
      false,
      json(200, {
        ...choice({ message: { content: 'Hi' }, finish_reason: 'stop' }),
        error: { message: 'a tool failed' },
      }),
    ],
  ];
  for (const [what, path, stream, script] of harmless) {
    it(`is none: ${what} (${path})`, async () => {
      first.script = script;
      await (await ask(await serverOver(1), path, stream)).text();
      await until(() => records.length > 0);
      expect(records[0]).to.include({ ending: 'complete', estimated: true });
      expect(records[0]?.inputTokens).to.be.greaterThan(0);
    });
  }
});
