import { expect } from 'chai';
import type { UsageRecord } from '../../../src/index.ts';
import { callerKey, type ModelServer, startModelServer } from '../../support/model-server.ts';
import { chunks, raw, reset, type Script, ScriptedUpstream, stall } from '../../support/upstream.ts';

const event = 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n';
const done = 'data: [DONE]\n\n';

/** Sends each byte by itself, and then nothing more. */
const byteByByte =
  (text: string): Script =>
  async (res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const byte of Buffer.from(text)) {
      res.write(Buffer.from([byte]));
      await new Promise(setImmediate);
    }
  };

describe('the end of a stream', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  let over: (record: UsageRecord) => void;
  let record: Promise<UsageRecord>;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    server = await startModelServer({
      // a call that kept its place would refuse the next one
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl, maxConcurrency: 1, timeouts: { betweenChunks: 150 } }],
      hooks: { onUsage: (used) => over(used) },
    });
  });

  after(async () => {
    await server.close();
    await upstream.close();
  });

  beforeEach(() => {
    record = new Promise((resolve) => {
      over = resolve;
    });
  });

  function ask(script: Script, path = '/chat/completions', signal?: AbortSignal): Promise<Response> {
    upstream.script = script;
    return fetch(server.baseUrl + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${callerKey}`, 'content-type': 'application/json' },
      body: '{"model":"m","prompt":"Hi","input":"Hi","store":false,"stream":true,"messages":[{"role":"user","content":"Hi"}]}',
      ...(signal && { signal }),
    });
  }

  it('reaches the client with [DONE] when the connection breaks before the blank line after it', async () => {
    const response = await ask(reset(`${event}data: [DONE]\n`));
    expect(await response.text()).to.equal(`${event}data: [DONE]\n`);
    expect((await record).ending).to.equal('complete');
  });

  it('comes with [DONE]: the call is complete when the client disconnects then', async () => {
    const leave = new AbortController();
    const response = await ask(stall(event + done), '/chat/completions', leave.signal);
    const reader = response.body?.getReader();
    await reader?.read();
    leave.abort();
    expect(await record).to.include({ ending: 'complete' });
    expect(await upstream.last.closed).to.equal(false);
  });

  for (const [what, script] of [
    ['breaks off', reset(event + done)],
    ['breaks off after CRLF', reset(`${event}data: [DONE]\r\n\r\n`)],
    ['sends nothing more', stall(event + done)],
    ['has sent byte by byte and sends nothing more', byteByByte(event + done)],
  ] as const) {
    it(`comes with [DONE]: the call is complete when the upstream ${what} then`, async () => {
      const response = await ask(script);
      const text = await response.text();
      expect(text).to.match(/data: \[DONE\]\s+$/);
      expect(text).not.to.include('error');
      expect(await record).to.include({ ending: 'complete' });
    });
  }

  it('does not come with a text that contains [DONE]', async () => {
    const text = await (await ask(reset('data: {"choices":[{"delta":{"content":"\\ndata: [DONE]"}}]}\n\n'))).text();
    expect(text).to.include('upstream_disconnected');
    expect(await record).to.include({ ending: 'upstream_failed' });
  });

  const untilClosed = (body: string): Script =>
    raw(`HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n${body}`);

  it('counts as a failure without [DONE] where only the closed connection ends the body', async () => {
    const text = await (await ask(untilClosed(event))).text();
    expect(text)
      .to.match(/^data: \{"choices"/)
      .and.to.match(/upstream_disconnected[^\n]*\n\n$/);
    expect(await record).to.include({ ending: 'upstream_failed' });
  });

  for (const end of [done, 'data:[DONE]\r\n\r\n', 'data: [DONE]']) {
    it(`comes with ${JSON.stringify(end)} where only the closed connection ends the body`, async () => {
      expect(await (await ask(untilClosed(event + end))).text()).to.equal(event + end);
      expect(await record).to.include({ ending: 'complete' });
    });
  }

  it('needs no [DONE] after a finish_reason where HTTP marks the end of the body, nor for images', async () => {
    const finished = `${event}data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n`;
    expect(await (await ask(chunks([finished]))).text()).to.equal(finished);
    expect(await record).to.include({ ending: 'complete' });
    const image = 'data: {"type":"image_generation.completed"}\n\n';
    expect(await (await ask(untilClosed(image), '/images/generations')).text()).to.equal(image);
  });

  for (const path of ['/chat/completions', '/completions']) {
    it(`has not come where HTTP marks it before [DONE] and any finish_reason, of ${path}`, async () => {
      const half = 'data: {"choices":[{"text":"finish_reason\\"","delta":{"content":"a"},"finish_reason":null}]}\n\n';
      const text = await (await ask(chunks([half]), path)).text();
      expect(text.startsWith(half)).to.equal(true);
      expect(text).to.match(/upstream_disconnected[^\n]*\n\n$/);
      expect(await record).to.include({ ending: 'upstream_failed' });
    });
  }

  it('has not come with the empty finish_reason that some upstreams write in every event', async () => {
    const half = 'data: {"choices":[{"delta":{"content":"a"},"finish_reason":""}]}\n\n';
    const text = await (await ask(chunks([half, half]))).text();
    expect(text.startsWith(half + half)).to.equal(true);
    expect(text).to.match(/upstream_disconnected[^\n]*\n\n$/);
    expect(await record).to.include({ ending: 'upstream_failed' });
  });

  const response = (fields: object) => ({ id: 'resp_1', object: 'response', ...fields });
  const completed = response({ status: 'completed', usage: { input_tokens: 3, output_tokens: 2 } });
  const data = (fields: object, end = '\n') => `data: ${JSON.stringify(fields)}${end}${end}`;
  const begun = data({ response: response({ status: 'in_progress' }), sequence_number: 0, type: 'response.created' });
  const lasts: [what: string, last: string][] = [
    ['last', data({ response: completed, sequence_number: 1, type: 'response.completed' })],
    ['last, in lines that end in CRLF', data({ response: completed, type: 'response.completed' }, '\r\n')],
    ['behind the number', data({ sequence_number: 1, type: 'response.completed', response: completed })],
  ];
  for (const [what, last] of lasts) {
    for (const [how, cut] of [
      ['whole', (text: string) => [text]],
      ['byte by byte', (text: string) => [...text]],
    ] as const) {
      it(`of a response comes with an event without a name whose type stands ${what}, ${how}`, async () => {
        for (const end of ['', done]) {
          const text = begun + last + end;
          expect(await (await ask(chunks(cut(text)), '/responses')).text()).to.equal(text);
          const { inputTokens, outputTokens, estimated, ending } = await record;
          expect([inputTokens, outputTokens, estimated, ending]).to.deep.equal([3, 2, false, 'complete']);
        }
      });
    }
  }

  it('of a response does not come with what the client has named so', async () => {
    const metadata = { type: 'response.completed' };
    const text = begun + data({ type: 'response.in_progress', response: response({ metadata }) });
    expect(await (await ask(chunks([text]), '/responses')).text()).to.match(/upstream_disconnected[^\n]*\n\n$/);
    expect(await record).to.include({ ending: 'upstream_failed' });
  });

  it('has not come with an empty body, which is no stream at all', async () => {
    const answer = await ask(chunks(['']));
    const { error } = (await answer.json()) as { error: { code: string } };
    expect([answer.status, error.code]).to.deep.equal([502, 'upstream_invalid_response']);
  });
});
