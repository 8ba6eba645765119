import { expect } from 'chai';
import OpenAI from 'openai';
import type { UsageRecord } from '../../../../src/index.ts';
import { callerKey, type ModelServer, startModelServer } from '../../../support/model-server.ts';
import { until } from '../../../support/until.ts';
import { json, reset, type Script, ScriptedUpstream } from '../../../support/upstream.ts';

const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const delta = (content: string) => ({
  id: 'c',
  object: 'chat.completion.chunk',
  choices: [{ index: 0, delta: { content } }],
});
const event = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const ask = { model: 'm', messages: [{ role: 'user' as const, content: 'Hi' }], stream: true as const };

/** Sends these bytes one piece after the other, with this Content-Type or with none. */
function labelled(type: string | undefined, pieces: readonly string[], end = true): Script {
  return async (res) => {
    res.writeHead(200, type === undefined ? {} : { 'content-type': type });
    for (const piece of pieces) {
      res.write(piece);
      await new Promise(setImmediate);
    }
    if (end) res.end();
  };
}

describe('a stream that its upstream labels as something else', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  let records: UsageRecord[];

  before(async () => {
    upstream = await ScriptedUpstream.start();
    server = await startModelServer({
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
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

  async function read(): Promise<{ text: string; type: string | null }> {
    const { data, response } = await server.client().chat.completions.create(ask).withResponse();
    let text = '';
    for await (const chunk of data) text += chunk.choices[0]?.delta.content ?? '';
    return { text, type: response.headers.get('content-type') };
  }

  const whole = [event(delta('Hel')), event(delta('lo')), event({ choices: [], usage }), 'data: [DONE]\n\n'];

  for (const type of [
    'text/plain',
    'application/json',
    'text/plain; charset=utf-8',
    'application/octet-stream',
    undefined,
  ]) {
    it(`is read as a stream when it is labelled ${type ?? 'not at all'}`, async () => {
      upstream.script = labelled(type, whole);
      expect(await read()).to.deep.equal({ text: 'Hello', type: 'text/event-stream; charset=utf-8' });
      await until(() => records.length > 0);
      expect(records[0]).to.include({ inputTokens: 3, outputTokens: 2, estimated: false, ending: 'complete' });
    });
  }

  it('is recognised when its first line comes in pieces, after a comment', async () => {
    upstream.script = labelled('text/plain', [
      ': he',
      'llo\n\nda',
      'ta',
      `: ${JSON.stringify(delta('Hi'))}\n\n`,
      'data: [DONE]\n\n',
    ]);
    expect((await read()).text).to.equal('Hi');
    upstream.script = labelled('text/plain', ['d', 'a', `ta: ${JSON.stringify(delta('Hi'))}\n\n`, 'data: [DONE]\n\n']);
    expect((await read()).text).to.equal('Hi');
  });

  it('reaches the client event by event', async () => {
    let release = (): void => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    upstream.script = async (res) => {
      res.writeHead(200, { 'content-type': 'text/plain' });
      res.write(event(delta('first')));
      await released;
      res.end('data: [DONE]\n\n');
    };
    const stream = await server.client().chat.completions.create(ask);
    const seen: string[] = [];
    for await (const chunk of stream) {
      seen.push(chunk.choices[0]?.delta.content ?? '');
      release();
    }
    expect(seen).to.deep.equal(['first']);
  });

  it('ends in an error event when it breaks off', async () => {
    upstream.script = reset(event(delta('Hal')), { 'content-type': 'application/json' });
    const thrown = await read().catch((error: unknown) => error);
    expect(thrown).to.be.instanceOf(OpenAI.APIError);
    expect((thrown as InstanceType<typeof OpenAI.APIError>).code).to.equal('upstream_disconnected');
  });

  it('is sent as JSON when it begins like JSON', async () => {
    upstream.script = json(200, { id: 'c', choices: [{}] });
    const response = await post(ask);
    expect([response.status, response.headers.get('content-type')]).to.deep.equal([200, 'application/json']);
    expect(await response.json()).to.deep.equal({ id: 'c', choices: [{}] });
  });

  for (const [what, script] of [
    ['is an error page', labelled('text/html', ['<html>id: 1</html>'])],
    ['is empty', labelled('text/plain', [])],
    ['breaks off in its first line', labelled('text/plain', ['dat'])],
    ['has a line that does not belong to a stream', labelled('text/plain', ['date: today\n\n'])],
  ] as [string, Script][]) {
    it(`is answered with 502 when it ${what}`, async () => {
      upstream.script = script;
      const response = await post(ask);
      expect(response.status).to.equal(502);
      expect(((await response.json()) as { error: { code: string } }).error.code).to.equal('upstream_invalid_response');
    });
  }

  it('is answered with 502 when the client asked for no stream', async () => {
    upstream.script = labelled('text/plain', whole);
    expect((await post({ ...ask, stream: false })).status).to.equal(502);
  });

  function post(body: unknown): Promise<Response> {
    return fetch(`${server.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${callerKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  }
});

describe('the beginning of a body', () => {});
