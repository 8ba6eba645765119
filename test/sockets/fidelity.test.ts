import { once } from 'node:events';
import { expect } from 'chai';
import fc from 'fast-check';
import { WebSocket } from 'ws';
import { until } from '../support/until.ts';
import { SocketUpstream } from './socket-upstream.ts';
import { SocketClient, startSockets } from './support.ts';

/** The longest message. Bytes. */
const maxSocketMessageBytes = 200_000;

interface Sent {
  readonly data: Buffer;
  readonly isBinary: boolean;
  /** Into how many frames it is cut. */
  readonly frames: number;
  /** Whether a ping goes between its frames. */
  readonly isPinged: boolean;
}

const lengths = fc.oneof(
  fc.integer({ min: 0, max: 300 }),
  fc.constantFrom(0, 1, 125, 126, 127, 65_535, 65_536, 65_537, maxSocketMessageBytes),
);
/** Bytes that do not begin like JSON: those are read, and refused where they are none. */
const binary = fc.tuple(lengths, fc.nat(255)).map(([length, seed]) => ({
  data: Buffer.from(Array.from({ length }, (_, i) => (i === 0 ? 1 : (i * 31 + seed) % 256))),
  isBinary: true,
}));
const texts = fc.tuple(lengths, fc.string({ unit: 'grapheme', maxLength: 50 })).map(([length, text]) => {
  const head = JSON.stringify({ type: 'x.y', text });
  const padding = Math.max(0, Math.min(length, maxSocketMessageBytes) - Buffer.byteLength(head));
  return { data: Buffer.from(`${head.slice(0, 1)}${' '.repeat(padding)}${head.slice(1)}`), isBinary: false };
});
const messages: fc.Arbitrary<Sent[]> = fc.array(
  fc
    .tuple(fc.oneof(binary, texts), fc.integer({ min: 1, max: 5 }), fc.boolean())
    .map(([message, frames, isPinged]) => ({ ...message, frames, isPinged })),
  { minLength: 1, maxLength: 12 },
);

/** Sends a message in its frames. */
function send(socket: WebSocket, { data, isBinary, frames, isPinged }: Sent): void {
  const step = Math.max(1, Math.ceil(data.length / frames));
  for (let at = 0; ; at += step) {
    const fin = at + step >= data.length;
    socket.send(data.subarray(at, at + step), { binary: isBinary, fin });
    if (fin) return;
    if (isPinged) socket.ping();
  }
}

describe('what goes over a WebSocket', () => {
  let upstream: SocketUpstream;
  let sockets: Awaited<ReturnType<typeof startSockets>>;
  let url: string;
  before(async () => {
    upstream = await SocketUpstream.start();
    sockets = await startSockets(upstream, {}, { maxSocketMessageBytes });
    url = `${sockets.url}/realtime?model=m`;
  });
  afterEach(() => upstream.reset());
  after(async () => {
    await sockets.drain();
    sockets.close();
    await upstream.close();
  });

  it('arrives as it was sent and in its order, both ways at once, in whatever frames', async () => {
    const client = await SocketClient.open(url, 'key');
    await fc.assert(
      fc.asyncProperty(messages, messages, async (up, down) => {
        upstream.received.length = 0;
        client.received.length = 0;
        for (let i = 0; i < Math.max(up.length, down.length); i += 1) {
          if (up[i]) send(client.socket, up[i] as Sent);
          if (down[i]) send(upstream.socket, down[i] as Sent);
        }
        await until(() => upstream.received.length === up.length && client.received.length === down.length);
        for (const [sent, received] of [
          [up, upstream.received],
          [down, client.received],
        ] as const) {
          expect(received.map(({ isBinary }) => isBinary)).to.deep.equal(sent.map(({ isBinary }) => isBinary));
          for (const [i, { data }] of sent.entries()) expect(received[i]?.data.equals(data), `${i}`).to.equal(true);
        }
      }),
      { numRuns: 60 },
    );
    client.socket.close();
    await client.whenClosed();
  });

  it('is not compressed, whatever a client offers: a message of the other side would wait for it', async () => {
    const client = new SocketClient(
      new WebSocket(url, { headers: { authorization: 'Bearer key' }, perMessageDeflate: { threshold: 0 } }),
    );
    await once(client.socket, 'open');
    expect(client.socket.extensions).to.equal('');
    expect(upstream.handshakes.at(-1)?.headers['sec-websocket-extensions']).to.equal(undefined);
    const text = JSON.stringify({ type: 'x.y', text: 'a'.repeat(10_000) });
    client.socket.send(text);
    upstream.socket.send(text);
    expect((await upstream.got(1))[0]?.data.toString()).to.equal(text);
    await client.event('x.y');
    client.socket.close();
    await client.whenClosed();
  });

  it('is asked for a sign of life by the gateway itself: pings of one side do not reach the other', async () => {
    const client = await SocketClient.open(url, 'key');
    let pings = 0;
    upstream.socket.on('ping', () => {
      pings += 1;
    });
    const pong = once(client.socket, 'pong');
    client.socket.ping('are you there?');
    expect(String((await pong)[0])).to.equal('are you there?');
    client.send({ type: 'x.y' });
    await upstream.got(1);
    expect(pings).to.equal(0);
    client.socket.close();
    await client.whenClosed();
  });

  for (const [code, reason] of [
    [1000, ''],
    [1001, 'é漢😀'],
    [1003, 'x'.repeat(123)],
    [1008, 'policy'],
    [1011, 'internal'],
    [1013, 'later'],
    [3000, 'registered'],
    [4999, 'private'],
  ] as const) {
    it(`ends with the code ${code} and its reason, whichever side closes`, async () => {
      const client = await SocketClient.open(url, 'key');
      const closed = once(upstream.socket, 'close');
      client.socket.close(code, reason);
      const [upCode, upReason] = await closed;
      expect([upCode, String(upReason)]).to.deep.equal([code, reason]);
      const other = await SocketClient.open(url, 'key');
      upstream.socket.close(code, reason);
      expect(await other.whenClosed()).to.deep.equal({ code, reason });
    });
  }

  it('ends without a code where the upstream gives none, and with 1001 at the upstream where the client gives none', async () => {
    const client = await SocketClient.open(url, 'key');
    const closed = once(upstream.socket, 'close');
    client.socket.close();
    expect((await closed)[0]).to.equal(1001);
    const other = await SocketClient.open(url, 'key');
    upstream.socket.close();
    expect((await other.whenClosed()).code).to.equal(1005);
  });
});
