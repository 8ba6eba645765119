import { expect } from 'chai';
import OpenAI from 'openai';
import { nobody } from '../support/listen.ts';
import { callerKey, type ModelServer, startModelServer } from '../support/model-server.ts';
import { events, hang, json, raw, reset, ScriptedUpstream, stall } from '../support/upstream.ts';

const completion = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
  vendor_field: { kept: true },
};
const delta = (content: string) => ({
  id: 'chatcmpl-1',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [{ index: 0, delta: { content }, finish_reason: null }],
});
const ask = { model: 'm', messages: [{ role: 'user' as const, content: 'Hi' }] };

describe("OpenAI's own client", () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  let client: OpenAI;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    server = await startModelServer({
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl, apiKey: 'sk-upstream-canary' }],
    });
    client = server.client();
  });

  after(async () => {
    await server.close();
    await upstream.close();
  });

  const failure = async (promise: PromiseLike<unknown>) => {
    try {
      await promise;
    } catch (error) {
      return error as InstanceType<typeof OpenAI.APIError>;
    }
    throw new Error('the call should have failed');
  };

  it('completes a chat, and gets a request id', async () => {
    upstream.script = json(200, completion);
    const answer = await client.chat.completions.create(ask);
    expect(answer).to.deep.include(completion);
    expect(answer._request_id).to.match(/^req_/);
    expect(upstream.last.path).to.equal('/v1/chat/completions');
    expect(JSON.parse(upstream.last.body.toString())).to.deep.equal(ask);
  });

  it("reaches the upstream with the upstream's own key, and without its own key, cookies and addresses", async () => {
    upstream.script = json(200, completion);
    await client.chat.completions.create(ask, { headers: { cookie: 'session=canary', 'x-forwarded-for': '10.9.8.7' } });
    expect(upstream.last.headers.authorization).to.equal('Bearer sk-upstream-canary');
    expect(upstream.last.headers['accept-encoding']).to.equal('identity');
    const sent = upstream.last.rawHeaders.join('\n').toLowerCase();
    for (const secret of [callerKey, 'session=canary', '10.9.8.7', 'stainless']) expect(sent).not.to.include(secret);
  });

  it('gets no header that tells where the answer came from', async () => {
    upstream.script = json(200, completion, {
      server: 'vendor',
      'set-cookie': 'a=b',
      'openai-organization': 'org-secret',
      'x-request-id': 'theirs',
      'openai-processing-ms': '12',
    });
    const { response } = await client.chat.completions.create(ask).withResponse();
    const headers = Object.fromEntries(response.headers);
    expect(headers).not.to.have.any.keys('server', 'set-cookie', 'openai-organization');
    expect(headers).to.include({ 'openai-processing-ms': '12' });
    expect(headers['x-request-id']).to.match(/^req_/);
  });

  it('streams a chat', async () => {
    upstream.script = events([delta('Hel'), delta('lo'), delta(' 😀')]);
    const { data: stream, response } = await client.chat.completions.create({ ...ask, stream: true }).withResponse();
    let text = '';
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
    expect(text).to.equal('Hello 😀');
    expect(response.headers.get('cache-control')).to.equal('no-cache, no-transform');
    expect(response.headers.get('x-accel-buffering')).to.equal('no');
  });

  it('gets the head of a stream before its first event', async () => {
    upstream.script = stall('');
    const abort = new AbortController();
    const { response } = await client.chat.completions
      .create({ ...ask, stream: true }, { signal: abort.signal })
      .withResponse();
    expect(response.status).to.equal(200);
    abort.abort();
    expect(await upstream.last.closed).to.equal(false);
  });

  it('gets embeddings in base64, which it asks for by default', async () => {
    upstream.script = json(200, {
      object: 'list',
      data: [{ object: 'embedding', index: 0, embedding: 'AACAPgAAAL8AAAA+' }],
      model: 'm',
      usage: { prompt_tokens: 1, total_tokens: 1 },
    });
    const answer = await client.embeddings.create({ model: 'm', input: 'text' });
    expect(answer.data[0]?.embedding).to.deep.equal([0.25, -0.5, 0.125]);
    expect(JSON.parse(upstream.last.body.toString())).to.deep.equal({
      model: 'm',
      input: 'text',
      encoding_format: 'base64',
    });
  });

  it('generates images', async () => {
    upstream.script = json(200, { created: 1, data: [{ b64_json: 'AAAA' }] });
    const answer = await client.images.generate({ model: 'm', prompt: 'a lighthouse' });
    expect(answer.data?.[0]?.b64_json).to.equal('AAAA');
    expect(upstream.last.path).to.equal('/v1/images/generations');
  });

  it("reads an upstream's error as its own error class, with status, code and body", async () => {
    const error = {
      message: 'Too long',
      type: 'invalid_request_error',
      param: 'messages',
      code: 'context_length_exceeded',
    };
    upstream.script = json(400, { error });
    const thrown = await failure(client.chat.completions.create(ask));
    expect(thrown).to.be.instanceOf(OpenAI.BadRequestError);
    expect(thrown.error).to.deep.equal(error);
    upstream.script = json(
      429,
      { error: { message: 'Slow down', code: 'rate_limit_exceeded' } },
      { 'retry-after': '7' },
    );
    const limited = await failure(client.chat.completions.create(ask));
    expect(limited).to.be.instanceOf(OpenAI.RateLimitError);
    expect(limited.headers?.get('retry-after')).to.equal('7');
  });

  it('is told that its own key is wrong, before the upstream is called', async () => {
    const calls = upstream.requests.length;
    const thrown = await failure(server.client({ apiKey: 'sk-wrong' }).chat.completions.create(ask));
    expect(thrown).to.be.instanceOf(OpenAI.AuthenticationError);
    expect(upstream.requests).to.have.lengthOf(calls);
  });

  for (const status of [401, 403, 407]) {
    it(`is not told that its key is wrong when the upstream answers the gateway ${status}`, async () => {
      upstream.script = json(status, { error: { message: 'Incorrect API key provided: sk-upstream-canary' } });
      const thrown = await failure(client.chat.completions.create(ask));
      expect([thrown.status, thrown.code]).to.deep.equal([502, 'upstream_auth_failed']);
      expect(JSON.stringify(thrown.error)).not.to.include('canary');
    });
  }

  it('throws when a stream breaks off, instead of taking half of it for the whole', async () => {
    upstream.script = reset(`data: ${JSON.stringify(delta('Hal'))}\n\n`);
    const stream = await client.chat.completions.create({ ...ask, stream: true });
    let text = '';
    const thrown = await failure(
      (async () => {
        for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
      })(),
    );
    expect(text).to.equal('Hal');
    expect(thrown).to.be.instanceOf(OpenAI.APIError);
    expect(thrown.code).to.equal('upstream_disconnected');
  });

  it('is answered 502 when the upstream sends an invalid response or drops the connection', async () => {
    upstream.script = raw('SSH-2.0\r\n');
    const invalid = await failure(client.chat.completions.create(ask));
    expect([invalid.status, invalid.code]).to.deep.equal([502, 'upstream_invalid_response']);
    upstream.script = reset();
    const gone = await failure(client.chat.completions.create(ask));
    expect([gone.status, gone.code]).to.deep.equal([502, 'upstream_disconnected']);
  });

  it('aborts the call to the upstream when it disconnects, before and after the first byte', async () => {
    for (const script of [hang, stall('data: {"choices":[]}\n\n')]) {
      upstream.script = script;
      const count = upstream.requests.length;
      const abort = new AbortController();
      const call = client.chat.completions.create({ ...ask, stream: true }, { signal: abort.signal }).catch(() => {});
      const request = await upstream.received(count + 1);
      abort.abort();
      expect(await request.closed).to.equal(false);
      await call;
    }
  });
});

describe('an upstream that is not there', () => {
  it('is answered with 502 in the error format, without its address', async () => {
    const server = await startModelServer({ upstreams: [{ name: 'gone', baseUrl: nobody }] });
    try {
      const response = await fetch(`${server.baseUrl}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${callerKey}`, 'content-type': 'application/json' },
        body: JSON.stringify(ask),
      });
      const text = await response.text();
      expect(response.status).to.equal(502);
      expect(JSON.parse(text).error).to.include({ type: 'server_error', param: null, code: 'upstream_unreachable' });
      expect(text).not.to.include('127.0.0.1');
    } finally {
      await server.close();
    }
  });
});
