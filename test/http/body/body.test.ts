import { once } from 'node:events';
import type { Socket } from 'node:net';
import * as zlib from 'node:zlib';
import { expect } from 'chai';
import request from 'supertest';
import { type Listening, listen } from '../../support/listen.ts';
import { createFakeEdge, fakeOperations, goodKey } from '../fake-edge.ts';
import { connectRaw, head } from '../raw-client.ts';

const { brotliCompressSync, deflateSync, gzipSync } = zlib;
/** Node 20 has no zstd, and its types do not know it. */
const { zstdCompressSync } = zlib as {
  readonly zstdCompressSync?: (bytes: string | Buffer, options?: object) => Buffer;
};

const authorization = `Bearer ${goodKey}`;
const json = { authorization, 'content-type': 'application/json' };
const webhook = '{"url":"https://example.com","events":["credits.low"],"secret":"12345678"}';
const next = head('GET', '/v1/models', { authorization });

function post(server: Listening, headers: Record<string, string>, body?: string | Buffer, path = '/v1/webhooks') {
  const call = request(server.url).post(path).set(headers);
  return body === undefined ? call : call.serialize((bytes) => bytes).send(body as unknown as object);
}

describe('reading a body', () => {
  let server: Listening;
  /** The same, but it waits a short time for a body. */
  let impatient: Listening;
  let sawRelayed = 0;

  before(async () => {
    const limits = { webhookBodyLimit: 1000, modelBodyLimit: 4000 };
    const edge = await createFakeEdge({
      ...limits,
      operations: fakeOperations({
        createEmbedding: {
          async relay(_call, res) {
            sawRelayed += 1;
            res.end();
          },
        },
      }),
    });
    server = await listen((req, res) => edge(req, res, () => res.writeHead(299).end()));
    const impatientEdge = await createFakeEdge({ ...limits, bodyTimeout: 150 });
    impatient = await listen((req, res) => impatientEdge(req, res, () => res.writeHead(299).end()));
  });
  after(async () => {
    await server.close();
    await impatient.close();
  });

  for (const [encoding, compress] of [
    ['gzip', gzipSync],
    ['x-gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
    ['identity', Buffer.from],
    ['GZIP', gzipSync],
  ] as const) {
    it(`accepts Content-Encoding: ${encoding}`, async () => {
      const { status, body } = await post(
        server,
        { ...json, 'content-encoding': encoding },
        compress(Buffer.from(webhook)),
      );
      expect([status, body.body?.secret]).to.deep.equal([200, '12345678']);
    });
  }

  it('accepts gzip with zeros behind it, which some programs fill up to a block with', async () => {
    const padded = Buffer.concat([gzipSync(webhook), Buffer.alloc(100)]);
    const { status, body } = await post(server, { ...json, 'content-encoding': 'gzip' }, padded);
    expect([status, body.body?.secret]).to.deep.equal([200, '12345678']);
  });

  for (const [what, encoding, bytes, status, code] of [
    ['an encoding it does not know', 'compress', Buffer.from(webhook), 415, 'unsupported_media_type'],
    ['two encodings', 'gzip, gzip', gzipSync(gzipSync(webhook)), 415, 'unsupported_media_type'],
    ['the encoding constructor', 'constructor', Buffer.from(webhook), 415, 'unsupported_media_type'],
    ['gzip that is not gzip', 'gzip', Buffer.from(webhook), 400, 'invalid_encoding'],
    ['truncated gzip', 'gzip', gzipSync(webhook).subarray(0, -12), 400, 'invalid_encoding'],
    [
      'gzip with more bytes behind it',
      'gzip',
      Buffer.concat([gzipSync(webhook), Buffer.from('more')]),
      400,
      'invalid_encoding',
    ],
    ['a gzip bomb', 'gzip', gzipSync(Buffer.alloc(1024 * 1024)), 413, 'request_too_large'],
    ['a brotli bomb', 'br', brotliCompressSync(Buffer.alloc(1024 * 1024)), 413, 'request_too_large'],
  ] as const) {
    it(`refuses ${what}`, async () => {
      const answer = await post(server, { ...json, 'content-encoding': encoding }, bytes);
      expect([answer.status, answer.body.error.code]).to.deep.equal([status, code]);
    });
  }

  it('names the encodings that it takes: zstd where Node has it', async () => {
    const { body, headers } = await post(server, { ...json, 'content-encoding': 'lzma' }, Buffer.from(webhook));
    const known = ['gzip', 'deflate', 'br', ...(zstdCompressSync ? ['zstd'] : [])];
    expect(body.error.message).to.equal(`Content-Encoding must be ${known.join(' or ')}, or be left out`);
    expect(headers['accept-encoding']).to.equal(known.join(', '));
  });

  if (zstdCompressSync) {
    it('reads zstd within the bounds of other encodings', async () => {
      const send = async (bytes: Buffer) => {
        const { status, body } = await post(server, { ...json, 'content-encoding': 'zstd' }, bytes);
        return [status, body.body?.secret ?? body.error?.code];
      };
      const packed = zstdCompressSync(webhook);
      expect(await send(packed)).to.deep.equal([200, '12345678']);
      // Node does not say that zstd breaks off
      expect((await send(packed.subarray(0, -1)))[0]).to.equal(400);
      expect(await send(Buffer.from(webhook))).to.deep.equal([400, 'invalid_encoding']);
      expect(await send(Buffer.concat([packed, packed]))).to.deep.equal([400, 'invalid_encoding']);
      expect(await send(zstdCompressSync(Buffer.alloc(1024 * 1024)))).to.deep.equal([413, 'request_too_large']);
      // a frame of a few bytes whose head asks for a window of 16 MiB
      const wide = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, (24 - 10) << 3, 1, 0, 0]);
      expect(await send(wide)).to.deep.equal([400, 'invalid_encoding']);
    });
  } else {
    it('refuses zstd where Node has none', async () => {
      const { status, body } = await post(server, { ...json, 'content-encoding': 'zstd' }, Buffer.from(webhook));
      expect([status, body.error.code]).to.deep.equal([415, 'unsupported_media_type']);
    });
  }

  it('skips a byte order mark before JSON, and does not relay it', async () => {
    const chat = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: '\u{feff}' }] });
    for (const [path, text] of [
      ['/v1/webhooks', webhook],
      ['/v1/chat/completions', chat],
    ] as const) {
      const marked = `\u{feff}${text}`;
      const plain = await post(server, json, marked, path);
      expect([plain.status, Buffer.from(plain.body.raw, 'base64').toString()]).to.deep.equal([200, text]);
      const packed = await post(server, { ...json, 'content-encoding': 'gzip' }, gzipSync(marked), path);
      expect(packed.body).to.deep.include({ body: plain.body.body, raw: plain.body.raw });
    }
  });

  it('counts the limit in bytes, to the last one', async () => {
    const filled = (length: number): string => `{"active":true${' '.repeat(length - 15)}}`;
    const patch = (body: string) => request(server.url).patch('/v1/webhooks/wh_1').set(json).send(body);
    expect((await patch(filled(1000))).status).to.equal(200);
    expect((await patch(filled(1001))).body.error).to.include({
      code: 'request_too_large',
      message: 'The body is larger than 1000 bytes',
    });
  });

  it('has a separate limit for relayed bodies', async () => {
    const body = JSON.stringify({ model: 'm', input: 'x'.repeat(3000) });
    expect((await post(server, json, body, '/v1/embeddings')).status).to.equal(200);
    expect((await post(server, json, `${body}${' '.repeat(1000)}`, '/v1/embeddings')).status).to.equal(413);
    expect(sawRelayed).to.equal(1);
  });

  for (const [type, status] of [
    ['application/json', 200],
    ['Application/JSON; charset=utf-8', 200],
    ['application/json; charset="UTF-8"; x=y', 200],
    ['application/json; charset=us-ascii', 200],
    ['application/json;', 200],
    ['application/json; charset=utf-16', 415],
    ['application/json; charset=latin1', 415],
    ['text/json', 415],
    ['application/jsonp', 415],
    ['application/ld+json', 415],
    ['application/x-www-form-urlencoded', 415],
    ['multipart/form-data; boundary=x', 415],
    ['application/json, text/plain', 415],
    ['', 415],
  ] as const) {
    it(`answers ${status} to Content-Type: ${type || '(none)'}`, async () => {
      expect((await post(server, { ...json, 'content-type': type }, Buffer.from(webhook))).status).to.equal(status);
    });
  }

  it('reads and drops the body of an operation that takes none', async () => {
    const client = connectRaw(server.port);
    client.write(head('DELETE', '/v1/webhooks/wh_1', { authorization, 'content-length': '3' }), 'abc', next);
    const text = await client.received(/200 OK[\s\S]*"params":\{"id":"wh_1"\}[\s\S]*200 OK/);
    expect(text).to.contain('"raw":""').and.not.contain('invalid');
    client.socket.destroy();
  });

  it('refuses an empty chunked body as missing', async () => {
    const client = connectRaw(server.port);
    client.write(head('POST', '/v1/webhooks', { ...json, 'transfer-encoding': 'chunked' }), '0\r\n\r\n');
    expect(await client.received(/"code":"missing_required_parameter"/)).to.include('400 Bad Request');
    client.socket.destroy();
  });

  it('answers 408 to a body that does not arrive', async () => {
    const client = connectRaw(impatient.port);
    client.write(head('POST', '/v1/webhooks', { ...json, 'content-length': '500' }), '{"url":');
    expect(await client.received(/"code":"request_timeout"/)).to.include('408 Request Timeout');
    client.socket.destroy();
  });

  it('answers 408 to a compressed body that does not arrive, and goes on serving', async () => {
    const client = connectRaw(impatient.port);
    const bytes = gzipSync(webhook);
    client.write(head('POST', '/v1/webhooks', { ...json, 'content-encoding': 'gzip', 'content-length': '500' }), bytes);
    await client.received(/408 Request Timeout/);
    client.write(Buffer.alloc(500 - bytes.length, 1));
    client.socket.destroy();
    await once(client.socket, 'close');
    expect((await request(impatient.url).get('/v1/models').set({ authorization })).status).to.equal(200);
  });

  it('goes on serving after a client disconnects in the middle of a compressed body', async () => {
    const client = connectRaw(server.port);
    client.write(
      head('POST', '/v1/webhooks', { ...json, 'content-encoding': 'gzip', 'content-length': '500' }),
      gzipSync('{').subarray(0, 8),
    );
    // until the server has begun to read
    await new Promise((resolve) => setTimeout(resolve, 20));
    client.socket.destroy();
    expect((await request(server.url).get('/v1/models').set({ authorization })).status).to.equal(200);
  });
});

describe('a connection after a refusal', () => {
  let server: Listening;

  before(async () => {
    const edge = await createFakeEdge({ webhookBodyLimit: 1000 });
    server = await listen((req, res) => edge(req, res, () => res.end()));
  });
  after(() => server.close());

  const body = Buffer.alloc(200_000, 'x');
  for (const [why, headers, status] of [
    ['no key', { 'content-type': 'application/json' }, 401],
    ['a body that is too large', json, 413],
    ['a body that is no JSON', { authorization, 'content-type': 'text/plain' }, 415],
  ] as const) {
    it(`serves the next request after ${why}, when the body is short`, async () => {
      const client = connectRaw(server.port);
      client.write(head('POST', '/v1/webhooks', { ...headers, 'content-length': String(body.length) }), body, next);
      const text = await client.received(/HTTP\/1\.1 [\s\S]*HTTP\/1\.1 200 OK/);
      expect(text)
        .to.match(new RegExp(`^HTTP/1\\.1 ${status} `))
        .and.not.match(/connection: close/i);
      client.socket.destroy();
    });

    it(`answers in full and then closes after ${why}, when the body does not end`, async () => {
      const client = connectRaw(server.port);
      client.write(
        head('POST', '/v1/webhooks', { ...headers, 'transfer-encoding': 'chunked' }),
        '1000\r\n',
        body.subarray(0, 0x1000),
        '\r\n',
      );
      const text = await client.received(/"code":"\w+"\}\}$/);
      expect(text)
        .to.match(new RegExp(`^HTTP/1\\.1 ${status} `))
        .and.match(/connection: close/i);
      client.write('0\r\n\r\n');
      await client.ended();
    });
  }

  it('is closed after 64 MiB of a refused body', async () => {
    const accepted = once(server.server, 'connection') as Promise<[Socket]>;
    const client = connectRaw(server.port);
    const [socket] = await accepted;
    // the client may see the end before the server does
    const closed = once(socket, 'close');
    // one chunk of 200 MiB: the pieces at the ends of chunks count as more bytes than they have
    client.write(head('POST', '/v1/webhooks', { 'transfer-encoding': 'chunked' }), 'c800000\r\n');
    const part = Buffer.alloc(1024 * 1024, 'x');
    let isOver = false;
    client.socket.on('close', () => {
      isOver = true;
    });
    for (let sent = 0; sent < 200 && !isOver; sent += 1) {
      client.write(part);
      if (client.socket.writableNeedDrain) await once(client.socket, 'drain').catch(() => {});
    }
    if (!isOver) await client.ended();
    await closed;
    expect(socket.bytesRead).to.be.within(64 * 1024 * 1024, 80 * 1024 * 1024);
  });
});
