import { expect } from 'chai';
import OpenAI from 'openai';
import { checkUpstreams } from '../../../src/options/models/upstreams.ts';
import { loggableError } from '../../../src/proxy/failure.ts';
import { callerKey, type ModelServer, startModelServer } from '../../support/model-server.ts';
import { json, raw, type Script, ScriptedUpstream } from '../../support/upstream.ts';

const apiKey = 'sk-proj-operators-own-key-0123456789';
const about = `Rate limit reached for gpt-5 in organization org-OPERATOR on tokens per min: Limit 30000. Key ${apiKey}`;
const talkative = { error: { message: about, type: 'tokens', param: null, code: 'insufficient_quota' } };
const hints = { 'retry-after': '7', 'retry-after-ms': '7000', 'x-should-retry': 'false', 'openai-processing-ms': '3' };

describe('an error of an upstream whose errors are masked', () => {
  let upstream: ScriptedUpstream;
  let masking: ModelServer;
  let open: ModelServer;
  let log: { message: string; fields: Record<string, unknown> }[];

  // anew for each: an upstream that fails again and again is left alone for a while
  beforeEach(async () => {
    log = [];
    upstream = await ScriptedUpstream.start();
    const one = { name: 'one', baseUrl: upstream.baseUrl, apiKey, headers: { 'x-operator': 'operators-other-secret' } };
    const logger = {
      info() {},
      error() {},
      warn: (message: string, fields: Record<string, unknown> = {}) => void log.push({ message, fields }),
    };
    masking = await startModelServer({ upstreams: [{ ...one, maskErrors: true }], retry: { attempts: 1 }, logger });
    open = await startModelServer({ upstreams: [one], retry: { attempts: 1 }, logger });
  });
  afterEach(async () => {
    await masking.close();
    await open.close();
    await upstream.close();
  });

  async function call(server: ModelServer, script: Script) {
    upstream.script = script;
    const answer = await fetch(`${server.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${callerKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hi' }] }),
    });
    return { status: answer.status, headers: answer.headers, text: await answer.text() };
  }

  for (const [status, code, type] of [
    [429, 'upstream_rate_limited', 'rate_limit_error'],
    [500, 'upstream_error', 'server_error'],
    [503, 'upstream_error', 'server_error'],
    [529, 'upstream_error', 'server_error'],
  ] as const) {
    it(`keeps its status ${status} and its retry-after, and shows its message in the log only`, async () => {
      const { status: seen, headers, text } = await call(masking, json(status, talkative, hints));
      expect(seen).to.equal(status);
      expect(JSON.parse(text).error).to.include({ code, type, param: null });
      expect(text).not.to.match(/org-|limit 30000|sk-/i);
      expect(headers.get('content-type')).to.match(/^application\/json/);
      for (const name of ['retry-after', 'retry-after-ms', 'x-should-retry'] as const) {
        expect(headers.get(name)).to.equal(hints[name]);
      }
      expect(headers.get('openai-processing-ms')).to.equal(null);
      expect(log).to.have.lengthOf(1);
      const { requestId, ...fields } = log[0]?.fields ?? {};
      expect(requestId).to.equal(headers.get('x-request-id'));
      expect(fields).to.include({ upstream: 'one', status });
      expect(fields.body).to.contain('org-OPERATOR').and.to.contain('[redacted]');
      expect(JSON.stringify(log)).not.to.contain(apiKey);
    });
  }

  const secret = 'org-OPERATOR';
  const page: Script = (res) => void res.writeHead(502, { 'content-type': 'text/html' }).end(`<h1>${secret}</h1>`);
  const stream: Script = (res) =>
    void res.writeHead(503, { 'content-type': 'text/event-stream' }).end(`data: ${secret}\n\n`);
  const encoded: Script = (res) =>
    void res.writeHead(500, { 'content-type': 'application/json', 'content-encoding': 'gzip' }).end(secret);
  const brokenOff = raw(`HTTP/1.1 500 No\r\ncontent-length: 100\r\n\r\n${secret}`);
  const endless: Script = (res) => {
    res.writeHead(500, { 'content-type': 'application/json' });
    const write = (): void => {
      while (!res.destroyed && res.write(secret.repeat(1_000)));
    };
    res.on('drain', write);
    write();
  };
  for (const [title, script] of Object.entries({
    'a page': page,
    nothing: json(500, Buffer.alloc(0)),
    'a stream': stream,
    compressed: encoded,
    'broken off': brokenOff,
    endless,
  })) {
    it(`is masked when it is ${title}`, async () => {
      const { status, text } = await call(masking, script);
      expect(status).to.be.within(500, 503);
      expect(JSON.parse(text).error).to.include({ type: 'server_error', code: 'upstream_error' });
      expect(text).not.to.contain(secret);
      expect(String(log.at(-1)?.fields.body).length).to.be.at.most(2_000);
    });
  }

  it('throws the same class of error in official clients', async () => {
    upstream.script = json(429, talkative, { 'retry-after': '7' });
    const error = await masking
      .client()
      .chat.completions.create({ model: 'm', messages: [{ role: 'user', content: 'Hi' }] })
      .catch((thrown) => thrown);
    expect(error).to.be.instanceOf(OpenAI.RateLimitError);
    expect(error).to.include({ status: 429, code: 'upstream_rate_limited' });
  });

  it('is passed on when it is about the request, as every error is without the option', async () => {
    expect((await call(masking, json(400, talkative))).text).to.equal(JSON.stringify(talkative));
    expect((await call(open, json(429, talkative))).text).to.equal(JSON.stringify(talkative));
    expect(log).to.deep.equal([]);
  });
});

describe('the logged text of an upstream error', () => {
  it('has no key in it, neither of the operator nor any other', () => {
    const fixed = { authorization: `Bearer ${apiKey}`, 'x-operator': 'operators-other-secret' };
    for (const secret of [
      apiKey,
      'operators-other-secret',
      'sk-ab***********xyz9',
      'gsk_0123456789',
      'Bearer abc.def',
      'emg_0123456789',
    ]) {
      const text = loggableError(`{"message":"Incorrect API key: ${secret}."}`, true, fixed);
      expect(text).to.contain('[redacted]');
      expect(text).not.to.contain(secret.split(' ').at(-1));
    }
    expect(loggableError('The model is overloaded', true, fixed)).to.equal('The model is overloaded');
  });

  it('has 2,000 characters at most, and no part of a key that was cut off', () => {
    const secret = 'x'.repeat(300);
    const fixed = { authorization: `Bearer ${secret}` };
    expect(loggableError('a'.repeat(9_000), true, fixed)).to.have.lengthOf(2_000);
    for (const length of [1, 150, 299]) {
      const text = loggableError(`${secret.repeat(20)} and ${secret.slice(0, length)}`, false, fixed);
      expect(text).not.to.match(/x/);
    }
  });
});

describe('the option maskErrors', () => {
  it('must be true or false', () => {
    const upstream = { name: 'one', baseUrl: 'https://api.example/v1', maskErrors: 'yes' as unknown as boolean };
    expect(() => checkUpstreams([upstream])).to.throw('upstreams[0].maskErrors: must be true or false');
  });
});
