import Anthropic from '@anthropic-ai/sdk';
import { expect } from 'chai';
import type { UsageRecord } from '../../../src/index.ts';
import { recordingLogger } from '../../support/logger.ts';
import { callerKey, limitedKey, type ModelServer, startModelServer } from '../../support/model-server.ts';
import { until } from '../../support/until.ts';
import { chunks, hang, json, reset, type Script, ScriptedUpstream } from '../../support/upstream.ts';
import { recordedText, recordings, sent } from './recorded.ts';

const model = 'claude-sonnet-4-5';
const ask = { model, max_tokens: 512, messages: [{ role: 'user' as const, content: 'Hi' }] };
const message = {
  ...{ id: 'msg_1', type: 'message', role: 'assistant', model },
  content: [{ type: 'text', text: 'Hello' }],
  ...{ stop_reason: 'end_turn', stop_sequence: null, vendor_field: { kept: true } },
  usage: { input_tokens: 3, output_tokens: 1 },
};
const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };
const clientOf = ({ baseUrl }: ModelServer, apiKey = callerKey) =>
  new Anthropic({ apiKey, baseURL: baseUrl.replace(/\/v1$/, ''), maxRetries: 0 });

/** Of the API, as the official client asks for it. */
const version = '2026-10-21';

const thrownBy = async (promise: PromiseLike<unknown>) => {
  try {
    await promise;
  } catch (error) {
    return error as InstanceType<typeof Anthropic.APIError>;
  }
  throw new Error('the call should have failed');
};

describe("Anthropic's own client", () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  let client: Anthropic;
  let records: UsageRecord[];

  before(async () => {
    upstream = await ScriptedUpstream.start();
    server = await startModelServer({
      upstreams: [
        {
          name: 'one',
          baseUrl: upstream.baseUrl,
          apiKey: 'sk-ant-upstream-canary',
          speaks: ['anthropic'],
          aliases: { fast: 'claude-haiku-4-5' },
        },
      ],
      hooks: { onUsage: (record) => void records.push(record) },
    });
    client = clientOf(server);
  });
  beforeEach(() => {
    records = [];
    upstream.requests.length = 0;
  });
  after(async () => {
    await server.close();
    await upstream.close();
  });

  async function recorded(): Promise<UsageRecord> {
    await until(() => records.length > 0);
    expect(records).to.have.length(1);
    return records[0] as UsageRecord;
  }

  it('gets a message, and a request id', async () => {
    upstream.script = json(200, message);
    const answer = await client.messages.create(ask);
    expect(answer).to.deep.include(message);
    expect(answer._request_id).to.match(/^req_/);
    expect(upstream.last.path).to.equal('/v1/messages');
    expect(JSON.parse(upstream.last.body.toString())).to.deep.equal(ask);
    const used = { inputTokens: 3, cachedInputTokens: 0, outputTokens: 1, estimated: false, ending: 'complete' };
    expect(await recorded()).to.include({ endpoint: '/messages', model, ...used });
  });

  it("reaches the upstream with the upstream's key, its own version and betas, and without its own key", async () => {
    upstream.script = json(200, message);
    await client.beta.messages.create({ ...ask, betas: ['context-1m-2025-08-07'] });
    const { headers, path, rawHeaders } = upstream.last;
    expect(path).to.match(/^\/v1\/messages(\?beta=true)?$/);
    expect(headers).to.include({
      'x-api-key': 'sk-ant-upstream-canary',
      'anthropic-version': version,
      'anthropic-beta': 'context-1m-2025-08-07',
    });
    expect(headers).not.to.have.any.keys('authorization');
    expect(rawHeaders.join('\n').toLowerCase()).to.not.include(callerKey).and.not.include('stainless');
  });

  it("gets no header that tells of the operator's account", async () => {
    upstream.script = json(200, message, {
      'request-id': 'req_theirs',
      'anthropic-organization-id': 'org-secret',
      'anthropic-ratelimit-requests-remaining': '7',
    });
    const { response } = await client.messages.create(ask).withResponse();
    expect(response.headers.get('request-id')).to.match(/^req_/).and.equal(response.headers.get('x-request-id'));
    expect(response.headers.get('request-id')).to.not.equal('req_theirs');
    expect(response.headers.has('anthropic-organization-id')).to.equal(false);
    expect(response.headers.has('anthropic-ratelimit-requests-remaining')).to.equal(false);
  });

  for (const { name, events, used } of recordings) {
    it(`streams ${name}, and is charged what it has used`, async () => {
      upstream.script = chunks(events.map(sent));
      const stream = client.messages.stream(ask);
      const seen: string[] = [];
      stream.on('streamEvent', ({ type }) => void seen.push(type));
      const final = await stream.finalMessage();
      expect(seen).to.deep.equal(events.map(({ type }) => type).filter((type) => type !== 'ping'));
      const said = events.at(-2)?.usage as { readonly output_tokens: number } | undefined;
      expect(final.usage.output_tokens).to.equal(said?.output_tokens);
      expect(await recorded()).to.include({ ...used, estimated: false, ending: 'complete' });
    });
  }

  it('sends pictures, documents, tools and what is to be cached unchanged', async () => {
    upstream.script = json(200, message);
    const data = Buffer.alloc(30_000, 'png').toString('base64');
    const body: Anthropic.MessageCreateParamsNonStreaming = {
      ...ask,
      system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
      thinking: { type: 'enabled', budget_tokens: 1_024 },
      tools: [
        { name: 'weather', input_schema: { type: 'object', properties: { file_id: { type: 'string' } } } },
        { type: 'web_search_20250305', name: 'web_search', max_uses: 3 },
      ],
      messages: [
        {
          role: 'user',
          content: [
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data } },
            { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } },
            { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data } },
            { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'Plain' }, title: 'T' },
          ],
        },
        {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'Hm', signature: 'EqQB' },
            // what a tool was given is no file of the account
            { type: 'tool_use', id: 'toolu_1', name: 'weather', input: { file_id: 'file_1', container: 'c' } },
          ],
        },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'sunny' }] },
      ],
    };
    await client.messages.create(body);
    expect(JSON.parse(upstream.last.body.toString())).to.deep.equal(body);
  });

  it('is charged an estimate where the upstream reports no usage: 1,500 tokens for each picture and document, and not their bytes', async () => {
    const { usage: _, ...withoutUsage } = message;
    upstream.script = json(200, withoutUsage);
    const data = 'A'.repeat(100_000);
    const source = `{"type":"base64","media_type":"image/png","data":"${data}"}`;
    const inAnotherOrder = `{ "data" : "${data}", "media_type": "application/pdf", "type" : "base64" }`;
    for (const [content, expected] of [
      [`{"type":"image","source":${source}}`, 1_500],
      [`{"type":"document","source":${inAnotherOrder}},{"type":"image","source":${source}}`, 3_000],
      ['{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}}', 1_500],
      [`{"type":"document","source":{"type":"text","media_type":"text/plain","data":"${data}"}}`, 25_000],
      [`{"type":"text","text":"\\"source\\":{\\"type\\":\\"base64\\",\\"data\\":\\"${data}"}`, 25_000],
    ] as const) {
      records = [];
      const body = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[${content}]}]}`;
      const headers = { 'x-api-key': callerKey, 'content-type': 'application/json' };
      expect((await fetch(`${server.baseUrl}/messages`, { method: 'POST', headers, body })).status).to.equal(200);
      const { estimated, inputTokens } = await recorded();
      expect(estimated).to.equal(true);
      expect(inputTokens).to.be.within(expected, expected + 100);
    }
  });

  it('counts the tokens of a message, which costs nothing', async () => {
    upstream.script = json(200, { input_tokens: 2_095 });
    const { messages } = ask;
    expect(await client.messages.countTokens({ model, messages })).to.deep.include({ input_tokens: 2_095 });
    expect(upstream.last.path).to.equal('/v1/messages/count_tokens');
    expect(await recorded()).to.include({ endpoint: '/messages/count_tokens', inputTokens: 0, outputTokens: 0 });
  });

  it('may call a model by its alias, and nothing else of the body changes', async () => {
    upstream.script = json(200, message);
    const body = `{"max_tokens":9, "model" : "fast","messages":[{"role":"user","content":"Hi","n":18446744073709551615}]}`;
    const headers = { 'x-api-key': callerKey, 'content-type': 'application/json' };
    await fetch(`${server.baseUrl}/messages`, { method: 'POST', headers, body });
    expect(upstream.last.body.toString()).to.equal(body.replace('"fast"', '"claude-haiku-4-5"'));
  });

  it("is told the upstream's error as it came", async () => {
    upstream.script = json(529, overloaded, { 'x-should-retry': 'false' });
    const error = await thrownBy(client.messages.create(ask));
    expect(error).to.be.instanceOf(Anthropic.InternalServerError);
    expect([error.status, error.type]).to.deep.equal([529, 'overloaded_error']);
    expect(error.error).to.deep.equal(overloaded);
    expect(records).to.deep.equal([]);
  });

  it("is told the gateway's own errors in the shape that it reads", async () => {
    const stranger = clientOf(server, 'sk-unknown');
    const unauthorized = await thrownBy(stranger.messages.create(ask));
    expect(unauthorized).to.be.instanceOf(Anthropic.AuthenticationError).with.property('type', 'authentication_error');
    expect(unauthorized.requestID).to.match(/^req_/);
    const body = unauthorized.error as { request_id: string; error: { code: string; param: null } };
    expect(body.request_id).to.equal(unauthorized.requestID);
    expect(body.error).to.include({ code: 'invalid_api_key', param: null });

    const limited = await thrownBy(clientOf(server, limitedKey).messages.create(ask));
    expect(limited).to.be.instanceOf(Anthropic.PermissionDeniedError).with.property('type', 'permission_error');

    const { max_tokens: _, ...unlimited } = ask;
    const invalid = await thrownBy(client.messages.create(unlimited as never));
    expect(invalid).to.be.instanceOf(Anthropic.BadRequestError).with.property('type', 'invalid_request_error');
    expect(invalid.message).to.include('max_tokens');

    upstream.script = reset();
    const failed = await thrownBy(client.messages.create(ask));
    expect(failed).to.be.instanceOf(Anthropic.InternalServerError).with.property('type', 'api_error');
    expect((failed.error as typeof body).error.code).to.equal('upstream_disconnected');
  });

  it('is told so also below a path that does not exist, and of a method that is not taken', async () => {
    for (const [method, path, status, type] of [
      ['GET', '/messages', 405, 'invalid_request_error'],
      ['POST', '/v1/messages', 404, 'not_found_error'],
    ] as const) {
      const response = await fetch(server.baseUrl + path, { method, headers: { 'x-api-key': callerKey } });
      expect(response.status).to.equal(status);
      expect(response.headers.get('request-id')).to.match(/^req_/);
      expect(((await response.json()) as { error: object }).error).to.include({ type });
    }
  });

  it('leaves a container, and a file, that its account does not have', async () => {
    const headers = { 'x-api-key': callerKey, 'content-type': 'application/json' };
    for (const [fields, param] of [
      [{ container: 'container_1' }, 'container'],
      [{ container: { id: 'container_1' } }, 'container'],
      [
        { messages: [{ role: 'user', content: [{ type: 'document', source: { type: 'file', file_id: 'f' } }] }] },
        'file',
      ],
    ] as const) {
      const body = JSON.stringify({ ...ask, ...fields });
      const response = await fetch(`${server.baseUrl}/messages`, { method: 'POST', headers, body });
      expect(response.status).to.equal(404);
      const { error } = (await response.json()) as { error: { type: string; param: string } };
      expect(error.type).to.equal('not_found_error');
      expect(error.param).to.include(param);
    }
    expect(upstream.requests).to.have.length(0);
  });
});

describe('a message that breaks off', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  let records: UsageRecord[];

  before(async () => {
    upstream = await ScriptedUpstream.start();
    server = await startModelServer({
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl, speaks: ['anthropic'] }],
      hooks: { onUsage: (record) => void records.push(record) },
    });
  });
  beforeEach(() => {
    records = [];
  });
  after(async () => {
    await server.close();
    await upstream.close();
  });

  async function stream(script: Script): Promise<string> {
    upstream.script = script;
    const response = await fetch(`${server.baseUrl}/messages`, {
      method: 'POST',
      headers: { 'x-api-key': callerKey, 'content-type': 'application/json' },
      body: JSON.stringify({ ...ask, stream: true }),
    });
    expect(response.status).to.equal(200);
    return response.text();
  }

  for (const { name, events, used } of recordings) {
    it(`ends in an error event wherever that is, and is charged what was seen: ${name}`, async () => {
      // one that ends without its last event has broken off, too
      for (const breakOff of [reset, (bytes: string) => chunks([bytes])]) {
        for (let count = 1; count < events.length; count += 1) {
          records = [];
          const bytes = events.slice(0, count).map(sent).join('');
          const text = await stream(breakOff(bytes));
          expect(text.startsWith(bytes)).to.equal(true);
          const [, data = ''] = /^event: error\ndata: (.*)\n\n$/.exec(text.slice(bytes.length)) ?? [];
          const said = JSON.parse(data);
          expect(said).to.deep.include({ type: 'error' });
          expect(said.error).to.include({ type: 'api_error', code: 'upstream_disconnected' });
          expect(said.request_id).to.match(/^req_/);
          await until(() => records.length > 0);
          const [record] = records as [UsageRecord];
          expect(record.ending).to.equal('upstream_failed');
          const isCounted = events.slice(0, count).some(({ type }) => type === 'message_delta');
          if (isCounted) expect(record).to.include({ ...used, estimated: false });
          else {
            expect(record.outputTokens).to.be.within(1, used.outputTokens + events.length);
            expect(record.cachedInputTokens).to.equal(used.cachedInputTokens ?? 0);
            expect(record.inputTokens).to.be.above(0);
          }
          const searches = events.slice(0, count).filter(({ content_block: block }) => {
            return (block as { type?: string } | undefined)?.type === 'server_tool_use';
          });
          expect(record.webSearchCalls ?? 0).to.equal(searches.length);
        }
      }
    });
  }

  it('is an error to the official client, in the middle of its stream', async () => {
    const { events } = recordedText;
    upstream.script = reset(events.slice(0, 3).map(sent).join(''));
    const error = await thrownBy(clientOf(server).messages.stream(ask).finalMessage());
    expect(error).to.be.instanceOf(Anthropic.APIError);
    expect(error.message).to.include('closed the connection');
  });

  it('is whole where it breaks off behind its last event', async () => {
    for (const { events } of recordings) {
      records = [];
      const bytes = events.map(sent).join('');
      expect(await stream(reset(bytes))).to.equal(bytes);
      await until(() => records.length > 0);
      expect(records[0]).to.include({ ending: 'complete', estimated: false });
    }
  });

  it('costs nothing where the upstream says in the stream that it has failed', async () => {
    const { events } = recordedText;
    const bytes = [...events.slice(0, 3).map(sent), sent(overloaded)].join('');
    expect(await stream(chunks([bytes]))).to.equal(bytes);
    await until(() => records.length > 0);
    expect(records[0]).to.include({ inputTokens: 0, outputTokens: 0, ending: 'upstream_failed' });
  });
});

describe('a call of a dialect', () => {
  let openai: ScriptedUpstream;
  let anthropic: ScriptedUpstream;
  const servers: ModelServer[] = [];
  const chat = { model: 'm', messages: ask.messages };

  before(async () => {
    openai = await ScriptedUpstream.start();
    anthropic = await ScriptedUpstream.start();
  });
  beforeEach(() => {
    for (const upstream of [openai, anthropic]) upstream.requests.length = 0;
    openai.script = json(200, { choices: [{ index: 0, message: { content: 'Hi' }, finish_reason: 'stop' }] });
    anthropic.script = json(200, message);
  });
  afterEach(() => Promise.all(servers.splice(0).map((server) => server.close())));
  after(async () => {
    await openai.close();
    await anthropic.close();
  });

  async function serverWith(...options: Parameters<typeof startModelServer>): Promise<ModelServer> {
    const server = await startModelServer(...options);
    servers.push(server);
    return server;
  }

  it('goes to upstreams that speak it alone, whatever models the others serve', async () => {
    const server = await serverWith({
      upstreams: [
        { name: 'a', baseUrl: openai.baseUrl, apiKey: 'key-a' },
        { name: 'b', baseUrl: anthropic.baseUrl, apiKey: 'key-b', speaks: ['anthropic'] },
      ],
    });
    for (let i = 0; i < 5; i += 1) {
      await server.client().chat.completions.create(chat);
      await clientOf(server).messages.create(ask);
    }
    expect([openai.requests.length, anthropic.requests.length]).to.deep.equal([5, 5]);
    expect(openai.last.headers).to.include({ authorization: 'Bearer key-a' });
    expect(openai.last.headers).not.to.have.any.keys('x-api-key');
    expect(anthropic.last.headers).to.include({ 'x-api-key': 'key-b' });
  });

  it('is refused with the fix where the model is at none of them', async () => {
    const server = await serverWith({
      upstreams: [
        { name: 'a', baseUrl: openai.baseUrl, models: ['gpt-*'] },
        { name: 'b', baseUrl: anthropic.baseUrl, models: ['claude-*'], speaks: ['anthropic'] },
      ],
    });
    const message = await thrownBy(clientOf(server).messages.create({ ...ask, model: 'gpt-5' }));
    expect(message).to.be.instanceOf(Anthropic.NotFoundError);
    expect(message.message).to.include("'gpt-5'").and.include("add 'anthropic' to speaks");
    const completion = await server
      .client()
      .chat.completions.create({ ...chat, model })
      .catch((error) => error);
    expect(completion).to.include({ status: 404, code: 'model_not_found' });
    expect(completion.message).to.include("add 'openai' to speaks");
    const unknown = await thrownBy(clientOf(server).messages.create({ ...ask, model: 'llama' }));
    expect(unknown.message).to.include('GET /v1/models').and.not.include('speaks');
    expect([openai.requests.length, anthropic.requests.length]).to.deep.equal([0, 0]);
  });

  it('gets the key of its upstream in the header that this takes', async () => {
    const headers = { 'x-api-key': 'key' };
    for (const [options, expected] of [
      [{ speaks: ['openai', 'anthropic'], apiKey: 'key' }, { authorization: 'Bearer key' }],
      [{ speaks: ['openai', 'anthropic'], headers }, headers],
      [{ speaks: ['anthropic'], apiKey: 'key' }, headers],
      [{ speaks: ['anthropic'], headers: { Authorization: 'Bearer key' } }, { authorization: 'Bearer key' }],
    ] as const) {
      const server = await serverWith({ upstreams: [{ name: 'both', baseUrl: anthropic.baseUrl, ...options }] });
      await clientOf(server).messages.create(ask);
      expect(anthropic.last.headers).to.include(expected);
      const other = 'authorization' in expected ? 'x-api-key' : 'authorization';
      expect(anthropic.last.headers).not.to.have.any.keys(other);
    }
  });

  it('is tried elsewhere when its first event is an error', async () => {
    const logger = recordingLogger();
    const server = await serverWith({
      logger,
      upstreams: [
        { name: 'a', baseUrl: openai.baseUrl, speaks: ['anthropic'] },
        { name: 'b', baseUrl: anthropic.baseUrl, speaks: ['anthropic'], priority: 1 },
      ],
      retry: { attempts: 2 },
    });
    openai.script = chunks([sent(overloaded)]);
    const { events } = recordedText;
    anthropic.script = chunks(events.map(sent));
    const final = await clientOf(server).messages.stream(ask).finalMessage();
    expect(final.stop_reason).to.equal('end_turn');
    expect([openai.requests.length, anthropic.requests.length]).to.deep.equal([1, 1]);
  });

  it('has its errors masked in the shape that its client reads', async () => {
    const server = await serverWith({
      upstreams: [{ name: 'b', baseUrl: anthropic.baseUrl, speaks: ['anthropic'], maskErrors: true }],
      retry: { attempts: 1 },
    });
    anthropic.script = json(529, overloaded);
    const error = await thrownBy(clientOf(server).messages.create(ask));
    expect([error.status, error.type]).to.deep.equal([529, 'overloaded_error']);
    expect((error.error as { error: { code: string } }).error.code).to.equal('upstream_error');
    expect(error.message).to.not.include('Overloaded');
  });

  it('is aborted at its upstream when the client leaves, and is charged what was seen', async () => {
    const records: UsageRecord[] = [];
    const server = await serverWith({
      upstreams: [{ name: 'b', baseUrl: anthropic.baseUrl, speaks: ['anthropic'] }],
      hooks: { onUsage: (record) => void records.push(record) },
    });
    const { events } = recordedText;
    anthropic.script = async (res, request) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const event of events.slice(0, 4)) res.write(sent(event));
      await hang(res, request);
    };
    const stream = await clientOf(server).messages.create({ ...ask, stream: true });
    for await (const event of stream) if (event.type === 'content_block_delta') break;
    expect(await anthropic.last.closed).to.equal(false);
    await until(() => records.length > 0);
    expect(records[0]).to.include({ ending: 'client_left', inputTokens: 25, estimated: true });
    expect(records[0]?.outputTokens).to.be.within(2, 512);
  });
});
