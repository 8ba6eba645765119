import { randomBytes } from 'node:crypto';
import { type IncomingHttpHeaders, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import fc from 'fast-check';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { FileProvider } from './file-provider.ts';

const sizes = [0, 1, 65_535, 65_536, 65_537, 3 * 1024 * 1024 + 7];
const json = { 'content-type': 'application/json' };

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
}

/** Cuts bytes into pieces of these sizes in turn. */
function* piecesOf(bytes: Buffer, lengths: readonly number[]): Generator<Buffer> {
  for (let at = 0, i = 0; at < bytes.length; i += 1) {
    const length = lengths[i % lengths.length] as number;
    yield bytes.subarray(at, at + length);
    at += length;
  }
}

describe('the bytes of files', () => {
  let provider: FileProvider;
  let gateway: LiveGateway;
  let ids: {
    readonly file: string;
    readonly container: string;
    readonly containerFile: string;
    readonly skill: string;
  };
  let uploadId: string;

  before(async () => {
    provider = await FileProvider.start();
    gateway = await startGateway({ upstreams: [{ name: 'one', baseUrl: provider.baseUrl }] });
    const file = JSON.parse((await upload('/v1/files', formOf([['file', 'a', Buffer.from('a')]]))).bytes.toString()).id;
    const container = (await gateway.call('POST', '/v1/containers', { name: 'c' })).body.id;
    const containerFile = (await gateway.call('POST', `/v1/containers/${container}/files`, { file_id: file })).body.id;
    const skill = JSON.parse(
      (await upload('/v1/skills', formOf([['files', 's', Buffer.from('s')]]))).bytes.toString(),
    ).id;
    ids = { file, container, containerFile, skill };
    // then it is known
    await gateway.call('GET', `/v1/skills/${skill}/versions`);
    uploadId = (
      await gateway.call('POST', '/v1/uploads', {
        bytes: 9,
        filename: 'b',
        mime_type: 'text/plain',
        purpose: 'user_data',
      })
    ).body.id;
  });
  afterEach(() => {
    provider.onUpload = undefined;
    provider.onRequest = undefined;
  });
  after(async () => {
    await gateway.close();
    await provider.close();
  });

  /** Sends a request, in these pieces where it is chunked. */
  function send(
    method: string,
    path: string,
    headers: Readonly<Record<string, string | number>>,
    pieces: Iterable<Buffer> = [],
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const sent = request(gateway.url + path, {
        method,
        headers: { authorization: `Bearer ${gateway.key}`, ...headers },
      });
      sent.on('error', reject);
      sent.on('response', async (response) => {
        try {
          const bytes = Buffer.concat(await response.toArray());
          resolve({ status: response.statusCode ?? 0, headers: response.headers, bytes });
        } catch (error) {
          reject(error);
        }
      });
      for (const piece of pieces) sent.write(piece);
      sent.end();
    });
  }

  const boundary = "----b'()+_,-./:=?0";
  const formType = `multipart/form-data; boundary="${boundary}"`;

  /** A form with a field for text, and these files. */
  function formOf(files: readonly (readonly [field: string, name: string, content: Buffer])[], fields = 1): Buffer {
    const parts: Buffer[] = Array.from({ length: fields }, (_, i) =>
      Buffer.from(
        `--${boundary}\r\nContent-Disposition: form-data; name="${i ? `x${i}` : 'purpose'}"\r\n\r\nuser_data\r\n`,
      ),
    );
    for (const [field, name, content] of files) {
      const head = `--${boundary}\r\nContent-Disposition: form-data; name="${field}"; filename="${name}"\r\nContent-Type: application/octet-stream\r\n\r\n`;
      parts.push(Buffer.from(head), content, Buffer.from('\r\n'));
    }
    return Buffer.concat([...parts, Buffer.from(`--${boundary}--\r\n`)]);
  }

  function upload(path: string, body: Buffer, lengths?: readonly number[]): Promise<Answer> {
    const type = { 'content-type': formType };
    if (lengths) return send('POST', path, type, piecesOf(body, lengths));
    return send('POST', path, { ...type, 'content-length': body.length }, [body]);
  }

  /** Has the provider keep what comes up, and answer with an id that nothing has. */
  function receive() {
    const got: { body: Buffer; headers: IncomingHttpHeaders } = { body: Buffer.alloc(0), headers: {} };
    provider.onUpload = async (req: IncomingMessage, res: ServerResponse) => {
      got.headers = req.headers;
      got.body = Buffer.concat(await req.toArray());
      res.writeHead(201, json).end(`{ "id":"made-${randomBytes(8).toString('hex')}", "big":12345678901234567890 }`);
    };
    return got;
  }

  const uploads: readonly (readonly [operation: string, field: string, path: () => string])[] = [
    ['createFile', 'file', () => '/v1/files'],
    ['addUploadPart', 'data', () => `/v1/uploads/${uploadId}/parts`],
    ['createContainerFile', 'file', () => `/v1/containers/${ids.container}/files`],
    ['createSkill', 'files', () => '/v1/skills'],
    ['createSkillVersion', 'files', () => `/v1/skills/${ids.skill}/versions`],
  ];
  for (const [operation, field, path] of uploads) {
    it(`go up as they came: ${operation}, of every size, with a length and in chunks`, async () => {
      for (const size of sizes) {
        for (const lengths of [undefined, [1_000, 70_000, 16_384]]) {
          const got = receive();
          const body = formOf([[field, 'é漢😀 "\\.bin'.replace('"', '%22'), randomBytes(size)]]);
          const { status, bytes } = await upload(path(), body, lengths);
          expect([status, got.headers['content-type']], `${size}`).to.deep.equal([201, formType]);
          expect(got.body.equals(body), `${size}`).to.equal(true);
          expect(bytes.toString()).to.match(/^\{ "id":"made-\w+", "big":12345678901234567890 \}$/);
          if (!lengths) expect(got.headers['content-length']).to.equal(String(body.length));
        }
      }
    });
  }

  it('go up as they came, whatever they are: no reader decides what a file is', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ minLength: 1, maxLength: 5_000 }),
        fc.integer({ min: 1, max: 40 }),
        fc.array(fc.integer({ min: 64, max: 5_000 }), { minLength: 1, maxLength: 4 }),
        fc.boolean(),
        async (bytes, repeats, lengths, isChunked) => {
          const got = receive();
          const body = Buffer.concat(Array.from({ length: repeats }, () => Buffer.from(bytes)));
          const { status } = await upload('/v1/files', body, isChunked ? lengths : undefined);
          expect(status).to.equal(201);
          expect(got.body.equals(body)).to.equal(true);
        },
      ),
      { numRuns: 40 },
    );
  });

  it('go up with hundreds of fields beside them', async () => {
    const got = receive();
    const body = formOf([['file', 'a', randomBytes(10)]], 500);
    expect((await upload('/v1/files', body)).status).to.equal(201);
    expect(got.body.equals(body)).to.equal(true);
  });

  const downloads: readonly (readonly [operation: string, path: () => string])[] = [
    ['downloadFile', () => `/v1/files/${ids.file}/content`],
    ['downloadContainerFile', () => `/v1/containers/${ids.container}/files/${ids.containerFile}/content`],
    ['downloadSkill', () => `/v1/skills/${ids.skill}/content`],
    ['downloadSkillVersion', () => `/v1/skills/${ids.skill}/versions/1/content`],
  ];
  for (const [operation, path] of downloads) {
    it(`come down as they were: ${operation}, of every size, with a length and in chunks`, async () => {
      for (const size of sizes) {
        const content = randomBytes(size);
        for (const head of [{ 'content-length': size }, {}]) {
          provider.onRequest = (_req, res) => {
            res.writeHead(200, { 'content-type': 'application/x-odd; a="b"', ...head });
            for (const piece of piecesOf(content, [7, 65_536, 1])) res.write(piece);
            res.end();
          };
          const { status, headers, bytes } = await send('GET', path(), {});
          expect([status, headers['content-type']]).to.deep.equal([200, 'application/x-odd; a="b"']);
          expect(headers['content-length']).to.equal('content-length' in head ? String(size) : undefined);
          expect(bytes.equals(content), `${size}`).to.equal(true);
        }
      }
    });
  }

  const event = 'data: {"a":1}\n\n: no end';
  for (const [type, content] of [
    ['text/event-stream', event],
    ['text/event-stream; charset=utf-8', 'event: error\ndata: {"error":{"message":"no"}}\n\n'],
    ['application/json', '{"error":{"message":"a file about errors"}'],
    ['application/json', ' {"id":"file-other", "object":"file"} '],
    ['text/html', '<script>alert(1)</script>'],
    ['application/jsonl', '{"a":1}\n{"a":2}'],
  ] as const) {
    it(`come down as they were, whatever their type says: ${type} ${JSON.stringify(content)}`, async () => {
      for (const query of ['', '?stream=true']) {
        provider.onRequest = (_req, res) => void res.writeHead(200, { 'content-type': type }).end(content);
        const { headers, bytes } = await send('GET', `/v1/files/${ids.file}/content${query}`, {});
        expect([headers['content-type'], bytes.toString()]).to.deep.equal([type, content]);
      }
    });
  }

  for (const [what, name] of [
    ['plain', 'attachment; filename="a b.txt"'],
    ['in the notation of RFC 5987', "attachment; filename*=UTF-8''%e6%bc%a2.txt"],
    ['in UTF-8, as some providers write it', 'attachment; filename="é漢😀.txt"'],
  ] as const) {
    it(`come down with the name that their upstream gives them, ${what}`, async () => {
      for (const length of [{ 'content-length': 3 }, {}]) {
        provider.onRequest = (_req, res) => {
          const disposition = Buffer.from(name).toString('latin1');
          res.writeHead(200, { 'content-disposition': disposition, ...length }).end(Buffer.from('abc'));
        };
        const { status, headers, bytes } = await send('GET', `/v1/files/${ids.file}/content`, {});
        const got = Buffer.from(headers['content-disposition'] ?? '', 'latin1').toString();
        expect([status, got, bytes.toString()]).to.deep.equal([200, name, 'abc']);
      }
    });
  }

  it('come down as they are where their upstream compresses them, although it is asked not to', async () => {
    const content = randomBytes(300_000);
    provider.onRequest = ({ headers }, res) => {
      expect(headers['accept-encoding']).to.equal('identity');
      res.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(content));
    };
    for (const accepted of ['gzip', 'identity']) {
      const path = `/v1/files/${ids.file}/content`;
      const { headers, bytes } = await send('GET', path, { 'accept-encoding': accepted });
      expect([headers['content-encoding'], bytes.equals(content)]).to.deep.equal([undefined, true]);
    }
  });

  it('come down in parts, and only if they have changed, where the upstream can do that', async () => {
    const whole = randomBytes(1_000);
    const etag = '"v1"';
    const modified = 'Wed, 21 Oct 2015 07:28:00 GMT';
    provider.onRequest = ({ headers }, res) => {
      const about = { etag, 'last-modified': modified, 'accept-ranges': 'bytes' };
      const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '') ?? [];
      if (headers['if-none-match'] === etag) res.writeHead(304, about).end();
      else if (headers['if-match'] !== undefined && headers['if-match'] !== etag) {
        res.writeHead(412, { ...json, ...about }).end('{"error":{"code":"changed"}}');
      } else if (from === undefined || (headers['if-range'] ?? etag) !== etag) res.writeHead(200, about).end(whole);
      else if (Number(from) >= whole.length) {
        res.writeHead(416, { ...json, 'content-range': 'bytes */1000' }).end('{"error":{"code":"range"}}');
      } else {
        const range = { 'content-range': `bytes ${from}-${to}/1000` };
        res.writeHead(206, { ...about, ...range }).end(whole.subarray(Number(from), Number(to) + 1));
      }
    };
    const get = (headers: Record<string, string>) => send('GET', `/v1/files/${ids.file}/content`, headers);
    const all = await get({});
    expect([all.status, all.headers.etag, all.headers['last-modified'], all.headers['accept-ranges']]).to.deep.equal([
      200,
      etag,
      modified,
      'bytes',
    ]);
    const part = await get({ range: 'bytes=10-19' });
    expect([part.status, part.headers['content-range']]).to.deep.equal([206, 'bytes 10-19/1000']);
    expect(part.bytes.equals(whole.subarray(10, 20))).to.equal(true);
    expect(part.headers['x-content-type-options']).to.equal('nosniff');
    const changed = await get({ range: 'bytes=10-19', 'if-range': '"v0"' });
    expect([changed.status, changed.bytes.length]).to.deep.equal([200, 1_000]);
    const beyond = await get({ range: 'bytes=2000-2001' });
    expect([beyond.status, beyond.headers['content-range']]).to.deep.equal([416, 'bytes */1000']);
    const same = await get({ 'if-none-match': etag });
    expect([same.status, same.headers.etag, same.bytes.length]).to.deep.equal([304, etag, 0]);
    expect((await get({ 'if-match': '"v0"' })).status).to.equal(412);
  });
});
