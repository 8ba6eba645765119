import { promisify } from 'node:util';
import * as zlib from 'node:zlib';
import { expect } from 'chai';
import * as raw from '../support/servers/raw-receiver.ts';
import { type Scene, startScene } from './over-http.ts';
import { type Answer, startReceiver, type TestReceiver } from './receiver.ts';

const ok = 'HTTP/1.1 200 OK\r\n';
/** Less than a body is read for, and enough for the head on a busy machine. Milliseconds. */
const attemptTimeout = 1_800;

describe('The answer of a receiver', () => {
  let scene: Scene;
  let requests: number;

  before(async () => {
    scene = await startScene({ retryDelays: [20], deliveries: { attemptTimeout } });
  });
  after(() => scene.close());

  /** The ended delivery of an event to a webhook whose receiver does this with each connection. */
  async function deliver(play: raw.Play) {
    requests = 0;
    const receiver = await raw.startRawReceiver((socket) => {
      socket.once('data', () => {
        requests += 1;
      });
      return play(socket);
    });
    const webhook = await scene.webhook(`http://127.0.0.1:${receiver.port}/hook`);
    try {
      return await scene.published(({ state }) => state !== 'pending');
    } finally {
      await scene.call('DELETE', `/v1/webhooks/${webhook}`);
      await receiver.stop();
    }
  }

  const chunked = `${ok}transfer-encoding: chunked\r\n\r\n`;
  const bodies: [what: string, raw.Play, response: string][] = [
    ['never ends', raw.endlessly(`${ok}\r\n`, 'a'.repeat(65_536)), 'a'.repeat(1_024)],
    ['does not go on before the deadline', raw.after(`${ok}content-length: 4000\r\n\r\n`, 'thanks'), 'thanks'],
    ['is reset', raw.resettingAfter(`${ok}content-length: 10\r\n\r\nhalf`), 'half'],
    ['ends in the middle', raw.closingAfter(`${ok}content-length: 10\r\n\r\nhalf`), 'half'],
    ['ends in the middle of its chunks', raw.closingAfter(`${chunked}4\r\nhalf\r\n4\r\nof`), 'halfof'],
    ['is no valid chunk', raw.after(`${chunked}4\r\nhalf\r\nzz\r\n`), 'half'],
  ];
  for (const [what, play, response] of bodies) {
    it(`is a success as soon as its status is 200, if its body ${what}: the event arrives once`, async () => {
      const { state, attempts } = await deliver(play);
      expect(state).to.equal('delivered');
      expect(attempts).to.have.length(1);
      expect(attempts[0]).to.include({ status: 200, code: null, response });
      expect(requests).to.equal(1);
    });
  }

  it('fails by its status, if its body never ends', async () => {
    const { state, attempts } = await deliver(raw.after('HTTP/1.1 503 No\r\ncontent-length: 4000\r\n\r\n', 'later'));
    expect(state).to.equal('failed');
    expect(attempts).to.have.length(2);
    for (const attempt of attempts) expect(attempt).to.include({ status: 503, code: 'http_503', response: 'later' });
  });

  describe('with a body that is no UTF-8 text', () => {
    const text = 'Größe überschritten: 1\u00a0€';
    const long = Array.from({ length: 2_000 }, (_, i) => `${i} ä`).join(' ');
    const head = (...headers: string[]) => ['HTTP/1.1 200 OK', ...headers, 'connection: close', '', ''].join('\r\n');
    const start = long.slice(0, 500);

    const encodings: [what: string, header: string, pack: (body: string) => Buffer][] = [
      ['gzip', 'gzip', (body) => zlib.gzipSync(body)],
      ['gzip by its old name', 'X-GZIP', (body) => zlib.gzipSync(body)],
      ['br', 'br', (body) => zlib.brotliCompressSync(body)],
      ['deflate', 'deflate', (body) => zlib.deflateSync(body)],
      ['deflate without its header', 'deflate', (body) => zlib.deflateRawSync(body)],
    ];
    for (const [what, header, pack] of encodings) {
      it(`is recorded as readable text if it is ${what}, whole or broken off`, async () => {
        const whole = await deliver(raw.closingAfter(head(`content-encoding: ${header}`), pack(text)));
        expect(whole.attempts[0]).to.include({ status: 200, code: null, response: text });
        const cut = pack(long).subarray(0, 3_000);
        const half = await deliver(raw.closingAfter(head(`content-encoding: ${header}`), cut));
        expect(half.state).to.equal('delivered');
        expect(half.attempts[0].response.slice(0, 500)).to.equal(start);
        expect(Buffer.byteLength(half.attempts[0].response)).to.be.within(1_020, 1_024);
      });
    }

    it('is recorded as readable text if it is Latin-1 or UTF-16', async () => {
      const latin = await deliver(
        raw.closingAfter(head('content-type: text/plain; charset="ISO-8859-1"'), Buffer.from('Größe\u00a0ä', 'latin1')),
      );
      expect(latin.attempts[0].response).to.equal('Größe\u00a0ä');
      const wide = await deliver(
        raw.closingAfter(head('content-type: text/plain;charset=utf-16le'), Buffer.from(text, 'utf16le')),
      );
      expect(wide.attempts[0].response).to.equal(text);
      const both = await deliver(
        raw.closingAfter(
          head('content-type: text/html; charset=latin1', 'content-encoding: gzip'),
          zlib.gzipSync(Buffer.from('Größe', 'latin1')),
        ),
      );
      expect(both.attempts[0].response).to.equal('Größe');
    });

    it('is recorded as it came if its headers are wrong or unknown, and is a success all the same', async () => {
      for (const header of ['content-encoding: gzip', 'content-encoding: magic', 'content-type: a; charset=klingon']) {
        const { state, attempts } = await deliver(raw.closingAfter(head(header), text));
        expect([state, attempts[0].response], header).to.deep.equal(['delivered', text]);
      }
    });

    it('is recorded as readable text if it is zstd, where Node has it, but as it came if its window is above 8 MiB', async () => {
      const { zstdCompressSync } = zlib as { readonly zstdCompressSync?: (body: string) => Buffer };
      const answer = async (bytes: Buffer) =>
        (await deliver(raw.closingAfter(head('content-encoding: zstd'), bytes))).attempts[0].response;
      // a frame of one block with the text as it is, whose head asks for a window of 8 or 16 MiB
      const framed = (log: number) =>
        Buffer.concat([
          Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, (log - 10) << 3, (3 << 3) | 1, 0, 0]),
          Buffer.from('abc'),
        ]);
      expect(await answer(framed(24))).to.match(/^\(.+abc$/s);
      if (!zstdCompressSync) return;
      expect(await answer(framed(23))).to.equal('abc');
      expect(await answer(zstdCompressSync(text))).to.equal(text);
    });

    it('is never more than 1 KB of a body that decompresses into megabytes', async () => {
      const zeros = Buffer.alloc(64 * 1024 * 1024, 'a');
      const params = { [zlib.constants.BROTLI_PARAM_QUALITY]: 5 };
      // beside the event loop: after seconds in which it stands still, connections that are kept count as idle for too long
      for (const [encoding, bomb] of [
        ['gzip', await promisify(zlib.gzip)(zeros)],
        ['br', await promisify<Buffer, zlib.BrotliOptions, Buffer>(zlib.brotliCompress)(zeros, { params })],
      ] as const) {
        const { state, attempts } = await deliver(raw.closingAfter(head(`content-encoding: ${encoding}`), bomb));
        expect([state, attempts[0].response]).to.deep.equal(['delivered', 'a'.repeat(1_024)]);
      }
    });
  });

  describe('with headers', () => {
    const answering = (status: string, ...headers: string[]) =>
      raw.closingAfter(
        Buffer.from(
          [`HTTP/1.1 ${status}`, ...headers, 'connection: close', 'content-length: 0', '', ''].join('\r\n'),
          'latin1',
        ),
      );

    it('has its Retry-After in the attempt, whatever its status, and is not followed by default', async () => {
      for (const status of ['503 No', '429 Slow', '200 OK', '302 Found']) {
        const { attempts } = await deliver(answering(status, 'retry-after: 3600'));
        for (const attempt of attempts) expect(attempt, status).to.include({ retry_after: '3600', location: null });
        expect(attempts).to.have.length(status === '200 OK' ? 1 : 2);
      }
    });

    it('has the Location of a redirect in the attempt, and of nothing else', async () => {
      const location = 'https://user:password@new.example/hook?token=1';
      const { attempts } = await deliver(answering('308 Moved', `location: ${location}`));
      expect(attempts[0]).to.include({ code: 'redirect', location, retry_after: null });
      const created = await deliver(answering('201 Created', `location: ${location}`));
      expect(created.attempts[0]).to.include({ status: 201, location: null });
    });

    it('is recorded without control characters, and at most 100 characters of Retry-After and 2,048 of Location', async () => {
      const headers = [`retry-after: a\x85\x9b${'9'.repeat(200)}`, `location: /\x9b${'a'.repeat(3_000)}`];
      const { attempts } = await deliver(answering('302 Found', ...headers));
      const [{ retry_after: retryAfter, location }] = attempts;
      expect([retryAfter.length, location.length]).to.deep.equal([100, 2_048]);
      expect(retryAfter + location).to.match(/^a9+\/a+$/);
    });
  });
});

describe('Retry-After with honorRetryAfter', () => {
  const delay = 300;
  let scene: Scene;
  let receiver: TestReceiver;

  before(async () => {
    scene = await startScene({ retryDelays: [delay, delay], deliveries: { honorRetryAfter: true } });
  });
  after(() => scene.close());
  beforeEach(async () => {
    receiver = await startReceiver();
    await scene.webhook(receiver.url);
  });
  afterEach(async () => {
    const { body } = await scene.call('GET', '/v1/webhooks');
    for (const { id } of body.data) await scene.call('DELETE', `/v1/webhooks/${id}`);
    await receiver.stop();
  });

  const asking = (retryAfter: string): Answer => {
    return (res) => void res.writeHead(503, { 'retry-after': retryAfter }).end();
  };
  /** Milliseconds between the requests that came. */
  const gaps = () => receiver.received.slice(1).map(({ at }, i) => at - (receiver.received[i]?.at ?? 0));

  it('postpones the next attempt, and adds none', async () => {
    receiver.answers(asking('1'), 503);
    const { state, attempts } = await scene.published(({ state }) => state !== 'pending');
    expect(state).to.equal('failed');
    expect(attempts).to.have.length(3);
    expect(gaps()[0]).to.be.at.least(1_000);
    expect(receiver.received).to.have.length(3);
  });

  it('makes no attempt earlier than the schedule', async () => {
    receiver.answers(asking('0'), 200);
    await scene.published(({ state }) => state === 'delivered');
    expect(gaps()[0]).to.be.at.least(delay);
  });

  it('postpones it by a day at most', async () => {
    receiver.answers(asking('999999'));
    const { attempts, next_attempt_at: next } = await scene.published(({ attempts }) => attempts.length === 1);
    const wait = Date.parse(next) - Date.parse(attempts[0].started_at) - attempts[0].duration_ms;
    expect(wait).to.be.within(86_400_000 - 1_000, 86_400_000 + 30_000);
  });
});
