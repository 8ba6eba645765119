import { once } from 'node:events';
import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { expect } from 'chai';
import { callerKey, type ModelServer, startModelServer } from '../support/model-server.ts';
import { events, json, raw, type Script, ScriptedUpstream } from '../support/upstream.ts';

/** What a provider might say of itself, its account and its connection. */
const talkative = {
  server: 'vendor',
  via: '1.1 vendor',
  'set-cookie': 'session=1',
  'x-request-id': 'theirs',
  'openai-organization': 'org-of-the-operator',
  'x-ratelimit-remaining-tokens': '12',
  'access-control-allow-origin': '*',
  'strict-transport-security': 'max-age=1',
  'alt-svc': 'h3=":443"',
  'keep-alive': 'timeout=72',
  connection: 'keep-alive, x-hop',
  'x-hop': '1',
  'cache-control': 'max-age=60',
  'x-powered-by': 'vendor',
};
const told = { 'openai-processing-ms': '12', 'openai-version': '2020-10-01' };

describe('the headers of a model call', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    server = await startModelServer({ upstreams: [{ name: 'one', baseUrl: upstream.baseUrl, apiKey: 'sk-ours' }] }, [
      (_req, res, next) => {
        res.removeHeader('x-powered-by');
        res.setHeader('access-control-allow-origin', 'https://app.example');
        next();
      },
    ]);
  });

  after(async () => {
    await server.close();
    await upstream.close();
  });

  /** A call as it goes over the wire; fetch would not let these headers pass. */
  async function call(script: Script, stream = false, headers: Record<string, string> = {}) {
    upstream.script = script;
    const request = httpRequest(`${server.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${callerKey}`, 'content-type': 'application/json', ...headers },
    });
    request.end(JSON.stringify({ model: 'm', stream, messages: [{ role: 'user', content: 'Hi' }] }));
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    response.resume();
    await once(response, 'end');
    return { status: response.statusCode, headers: response.headers };
  }

  /** What HTTP itself needs aside. */
  function names(headers: IncomingHttpHeaders): string[] {
    const own = ['connection', 'keep-alive', 'date', 'transfer-encoding', 'content-length', 'host'];
    return Object.keys(headers)
      .filter((name) => !own.includes(name))
      .sort();
  }

  it('reach the upstream only if they are on a list, with the key of the operator', async () => {
    await call(json(200, { choices: [{}] }), false, {
      accept: 'application/json',
      'user-agent': 'OpenAI/JS 6',
      'idempotency-key': 'stainless-1',
      'openai-beta': 'assistants=v2',
      'accept-encoding': 'gzip, br',
      cookie: 'session=1',
      forwarded: 'for=10.9.8.7',
      'x-forwarded-for': '10.9.8.7',
      'x-real-ip': '10.9.8.7',
      'proxy-authorization': 'Basic abc',
      'openai-organization': 'org-of-the-caller',
      'x-stainless-lang': 'js',
      'x-request-id': 'theirs',
      te: 'trailers',
      connection: 'keep-alive, x-hop',
      'x-hop': '1',
    });
    const sent = upstream.last.headers;
    expect(names(sent)).to.deep.equal([
      'accept',
      'accept-encoding',
      'authorization',
      'content-type',
      'idempotency-key',
      'openai-beta',
      'user-agent',
      'x-request-id',
    ]);
    expect(sent).to.include({
      authorization: 'Bearer sk-ours',
      'accept-encoding': 'identity',
      'user-agent': 'OpenAI/JS 6',
    });
    expect(sent['idempotency-key']).to.match(/^[\w-]{43}$/);
    expect(sent.connection).not.to.include('x-hop');
  });

  it('of an answer reach the client only if they are on a list, and those of the host stay', async () => {
    const { headers } = await call(json(200, { choices: [{}] }, { ...talkative, ...told }));
    expect(names(headers)).to.deep.equal([
      'access-control-allow-origin',
      'cache-control',
      'content-type',
      'openai-processing-ms',
      'openai-version',
      'x-request-id',
    ]);
    expect(headers).to.include({
      ...told,
      'cache-control': 'no-store',
      'access-control-allow-origin': 'https://app.example',
    });
    expect(headers['x-request-id']).to.match(/^req_/).and.equal(upstream.last.headers['x-request-id']);
  });

  it('of an answer reach the client once where the upstream sends them twice', async () => {
    const twice = 'content-type: text/event-stream; charset=utf-8\r\nopenai-version: 1\r\n'.repeat(2);
    const { headers } = await call(
      raw(`HTTP/1.1 200 OK\r\n${twice}\r\ndata: {"choices":[{}]}\n\ndata: [DONE]\n\n`),
      true,
    );
    expect(headers).to.include({ 'content-type': 'text/event-stream; charset=utf-8', 'openai-version': '1' });
  });

  it('name every encoding of an answer, where each has a header of its own', async () => {
    const twice = 'content-encoding: aws-chunked\r\ncontent-encoding: br\r\ncontent-type: application/json\r\n';
    const { headers } = await call(raw(`HTTP/1.1 200 OK\r\n${twice}content-length: 2\r\n\r\n{}`), false, {
      'accept-encoding': 'br, aws-chunked',
    });
    expect(headers['content-encoding']).to.match(/^aws-chunked, ?br$/);
  });

  it('of a stream tell proxies not to buffer or change it', async () => {
    const stream: Script = (res, request) => {
      for (const [name, value] of Object.entries({ ...talkative, ...told })) res.setHeader(name, value);
      return events([{ choices: [{}] }])(res, request);
    };
    const { headers } = await call(stream, true);
    expect(names(headers)).to.deep.equal([
      'access-control-allow-origin',
      'cache-control',
      'content-type',
      'openai-processing-ms',
      'openai-version',
      'x-accel-buffering',
      'x-request-id',
    ]);
    expect(headers).to.include({ 'cache-control': 'no-cache, no-transform', 'x-accel-buffering': 'no' });
    expect(headers['x-request-id']).to.match(/^req_/);
  });

  it('of an error tell the client when to retry', async () => {
    const hints = { 'retry-after': '60', 'retry-after-ms': '60000', 'x-should-retry': 'false' };
    const { status, headers } = await call(json(429, { error: {} }, { ...talkative, ...hints }));
    expect(status).to.equal(429);
    expect(headers).to.include(hints);
    expect(headers).not.to.have.any.keys('set-cookie', 'server', 'openai-organization', 'x-ratelimit-remaining-tokens');
    expect(headers['x-request-id']).to.match(/^req_/);
  });
});
