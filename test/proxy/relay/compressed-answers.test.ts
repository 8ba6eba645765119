import * as zlib from 'node:zlib';
import { brotliCompressSync, constants, createBrotliCompress, createGzip, deflateSync, gzipSync } from 'node:zlib';
import { expect } from 'chai';
import type OpenAI from 'openai';
import type { UsageRecord } from '../../../src/index.ts';
import { callerKey, type ModelServer, startModelServer } from '../../support/model-server.ts';
import { until } from '../../support/until.ts';
import { chunks, json, ScriptedUpstream } from '../../support/upstream.ts';

const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
const completion = { id: 'c', choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' } }], usage };
const delta = (content: string) => ({ id: 'c', choices: [{ index: 0, delta: { content } }] });
const event = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const ask = { model: 'm', messages: [{ role: 'user' as const, content: 'Hi' }] };

const codings = {
  gzip: { whole: gzipSync, stream: () => createGzip() },
  'x-gzip': { whole: gzipSync, stream: () => createGzip() },
  br: { whole: brotliCompressSync, stream: () => createBrotliCompress() },
} as const;

describe('an upstream that compresses although it was asked not to', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  let client: OpenAI;
  let records: UsageRecord[];

  before(async () => {
    upstream = await ScriptedUpstream.start();
    server = await startModelServer({
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
      hooks: { onUsage: (record) => void records.push(record) },
    });
    client = server.client();
  });
  beforeEach(() => {
    records = [];
  });
  after(async () => {
    await server.close();
    await upstream.close();
  });

  const recorded = async () => {
    await until(() => records.length > 0);
    return records[0];
  };

  function post(body: unknown): Promise<Response> {
    return fetch(`${server.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${callerKey}`,
        'content-type': 'application/json',
        'accept-encoding': 'identity',
      },
      body: JSON.stringify(body),
    });
  }

  const failure = async (promise: Promise<unknown>): Promise<unknown> => {
    try {
      await promise;
    } catch (error) {
      return (error as { code?: unknown }).code;
    }
    throw new Error('the call should have failed');
  };

  const wholes = { gzip: gzipSync, 'x-gzip': gzipSync, deflate: deflateSync, br: brotliCompressSync, GZIP: gzipSync };
  for (const [coding, compress] of Object.entries(wholes)) {
    it(`has its ${coding} answer decompressed, and its usage counted`, async () => {
      upstream.script = json(200, compress(Buffer.from(JSON.stringify(completion))), { 'content-encoding': coding });
      const response = await post(ask);
      expect([response.status, response.headers.get('content-encoding')]).to.deep.equal([200, null]);
      expect(await response.json()).to.deep.equal(completion);
      expect(await recorded()).to.include({ inputTokens: 3, outputTokens: 2, estimated: false });
    });
  }

  for (const [coding, { stream: create }] of Object.entries(codings)) {
    it(`has its ${coding} stream sent event by event, without the usage chunk that the gateway has asked for`, async () => {
      let release = (): void => {};
      const released = new Promise<void>((resolve) => {
        release = resolve;
      });
      upstream.script = async (res) => {
        res.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': coding });
        const compress = create();
        compress.pipe(res);
        compress.write(event(delta('first')));
        compress.flush();
        await released;
        compress.write(event(delta('last')));
        compress.write(event({ choices: [], usage }));
        compress.end('data: [DONE]\n\n');
      };
      const { data, response } = await client.chat.completions.create({ ...ask, stream: true }).withResponse();
      const seen: unknown[] = [];
      for await (const chunk of data) {
        seen.push(chunk.choices[0]?.delta.content);
        release();
      }
      expect(seen).to.deep.equal(['first', 'last']);
      expect(response.headers.get('content-encoding')).to.equal(null);
      expect(await recorded()).to.include({ inputTokens: 3, outputTokens: 2, estimated: false, ending: 'complete' });
    });
  }

  it('has its error decompressed', async () => {
    const error = { message: 'Too long', type: 'invalid_request_error', param: null, code: 'context_length_exceeded' };
    upstream.script = json(400, gzipSync(JSON.stringify({ error })), { 'content-encoding': 'gzip' });
    expect(await failure(client.chat.completions.create(ask))).to.equal('context_length_exceeded');
  });

  it('has its list of models decompressed', async () => {
    const list = { object: 'list', data: [{ id: 'x', object: 'model', created: 1, owned_by: 'them' }] };
    upstream.script = json(200, gzipSync(JSON.stringify(list)), { 'content-encoding': 'gzip' });
    expect((await client.models.list()).data).to.deep.equal(list.data);
  });

  it('has its answer taken as it is where it says that it is in no encoding', async () => {
    for (const none of ['none', 'None', 'identity']) {
      records = [];
      const head = { 'content-type': 'text/event-stream', 'content-encoding': none };
      upstream.script = chunks([event(delta('Hi')), event({ choices: [], usage }), 'data: [DONE]\n\n'], head);
      const response = await post({ ...ask, stream: true });
      expect(response.headers.get('content-encoding'), none).to.equal(null);
      expect(await response.text()).to.equal(`${event(delta('Hi'))}data: [DONE]\n\n`);
      expect(await recorded()).to.include({ inputTokens: 3, outputTokens: 2, estimated: false, ending: 'complete' });
    }
  });

  it('is answered with 502 where its answer is not compressed', async () => {
    upstream.script = json(200, Buffer.from(JSON.stringify(completion)), { 'content-encoding': 'gzip' });
    expect(await failure(client.chat.completions.create(ask))).to.equal('upstream_invalid_response');
    expect(records).to.deep.equal([]);
  });

  it('is answered with 502 where a few bytes of zstd ask for a window of more than 8 MiB', async () => {
    const text = JSON.stringify(completion);
    const head = (log: number) => Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, (log - 10) << 3]);
    // one block with the text as it is
    const length = (text.length << 3) | 1;
    const block = Buffer.concat([Buffer.from([length & 0xff, length >> 8, 0]), Buffer.from(text)]);
    const answer = (log: number) => json(200, Buffer.concat([head(log), block]), { 'content-encoding': 'zstd' });
    upstream.script = answer(24);
    expect(await failure(client.chat.completions.create(ask))).to.equal('upstream_invalid_response');
    upstream.script = answer(23);
    if ('createZstdDecompress' in zlib) expect(await (await post(ask)).json()).to.deep.equal(completion);
  });

  it('is answered with 502 where its answer ends in the middle of the compressed data', async () => {
    const bytes = gzipSync(JSON.stringify({ ...completion, filler: 'abcdefghijklmnopqrstuvwxyz0123456789' }));
    upstream.script = json(200, bytes.subarray(0, -20), { 'content-encoding': 'gzip' });
    expect(await failure(client.chat.completions.create(ask))).to.equal('upstream_invalid_response');
  });

  it('has its stream ended with an error event where the data is corrupt', async () => {
    let release = (): void => {};
    const seen = new Promise<void>((resolve) => {
      release = resolve;
    });
    upstream.script = async (res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' });
      const compress = createGzip();
      compress.pipe(res, { end: false });
      compress.write(event(delta('Hal')));
      compress.flush(constants.Z_SYNC_FLUSH);
      await seen;
      res.end(Buffer.alloc(200, 0xff));
    };
    const stream = await client.chat.completions.create({ ...ask, stream: true });
    let text = '';
    const code = await failure(
      (async () => {
        for await (const chunk of stream) {
          text += chunk.choices[0]?.delta.content ?? '';
          release();
        }
      })(),
    );
    expect([text, code]).to.deep.equal(['Hal', 'upstream_invalid_response']);
  });

  it('is cut off where its answer is very much larger than its compressed bytes', async () => {
    const bomb = gzipSync(
      Buffer.concat([Buffer.from('{"a":"'), Buffer.alloc(4 * 1024 * 1024, 'x'), Buffer.from('"}')]),
    );
    upstream.script = json(200, bomb, { 'content-encoding': 'gzip' });
    const response = await post(ask);
    const text = await response.text().catch(() => 'cut');
    expect(text).to.equal('cut');
    expect(await recorded()).to.include({ ending: 'upstream_failed' });
  });

  it('has an answer in an encoding that Node does not know sent unchanged only to a client that accepts it', async () => {
    upstream.script = json(200, Buffer.from('whatever'), { 'content-encoding': 'compress' });
    expect((await post(ask)).status).to.equal(502);
    const response = await fetch(`${server.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${callerKey}`,
        'content-type': 'application/json',
        'accept-encoding': 'compress',
      },
      body: JSON.stringify(ask),
    });
    expect([response.status, response.headers.get('content-encoding')]).to.deep.equal([200, 'compress']);
  });
});
