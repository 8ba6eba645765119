import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { expect } from 'chai';
import { until } from '../support/until.ts';
import { untilRead } from '../support/until-read.ts';
import { respond, SocketUpstream } from './socket-upstream.ts';
import { refusalOf, SocketClient, type SocketGateway, startSocketGateway } from './support.ts';

const mebibyte = 1024 * 1024;

describe('the messages of a WebSocket', () => {
  let upstream: SocketUpstream;
  let gateway: SocketGateway;
  before(async () => {
    upstream = await SocketUpstream.start();
    gateway = await startSocketGateway({
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }],
      fixed: { socketMessageBytes: 2 * mebibyte },
    });
  });
  afterEach(() => {
    upstream.reset();
    gateway.usage.length = 0;
  });
  after(async () => {
    await gateway.close();
    await upstream.close();
  });

  const open = () => SocketClient.open(`${gateway.url}/realtime?model=talk`, gateway.key);

  /** Odd, but JSON: what is parsed and written again would differ. */
  const text = Buffer.from('{ "type":"x.y",  "n":1.0, "big":12345678901234567890, "\\u0061":"\\ud83d\\ude00é😀" }');
  const messages: [what: string, data: Buffer, isBinary: boolean][] = [
    ['a text', text, false],
    ['an empty binary message', Buffer.alloc(0), true],
    ['bytes', Buffer.concat([Buffer.from([1]), randomBytes(1_000)]), true],
    ['bytes that begin with a brace', Buffer.from('{\u0001{'), true],
    ['zeros', Buffer.alloc(5_000), true],
    [
      'a megabyte of text',
      Buffer.from(JSON.stringify({ type: 'input_audio_buffer.append', audio: 'A'.repeat(mebibyte) })),
      false,
    ],
    ['a megabyte of bytes', Buffer.concat([Buffer.from([1]), randomBytes(mebibyte)]), true],
  ];
  for (const [what, data, isBinary] of messages) {
    it(`pass as they came, both ways: ${what}`, async () => {
      const client = await open();
      client.socket.send(data, { binary: isBinary });
      const [up] = await upstream.got(1);
      expect(up?.isBinary).to.equal(isBinary);
      expect(up?.data.equals(data)).to.equal(true);
      upstream.socket.send(data, { binary: isBinary });
      await until(() => client.received.length === 1);
      expect(client.received[0]?.isBinary).to.equal(isBinary);
      expect(client.received[0]?.data.equals(data)).to.equal(true);
      client.socket.close();
      await client.whenClosed();
    });
  }

  it('are whole and in their order when they come in fragments', async () => {
    const client = await open();
    for (const [from, received] of [
      [client.socket, upstream.received],
      [upstream.socket, client.received],
    ] as const) {
      from.send('{"type":"a"', { fin: false });
      from.send(',"n":', { fin: false });
      from.ping();
      from.send('1}', { fin: true });
      for (let n = 2; n <= 100; n += 1) from.send(JSON.stringify({ type: n % 3 ? 'a' : 'session.update', n }));
      await until(() => received.length === 100);
      expect(received.map(({ data }) => JSON.parse(data.toString()).n)).to.deep.equal(
        Array.from({ length: 100 }, (_, i) => i + 1),
      );
    }
    client.socket.close();
    await client.whenClosed();
  });

  it('that the gateway cannot read are refused: the upstream might read them', async () => {
    const client = await open();
    for (const [message, code] of [
      ['{"type":"response.create"', 'invalid_json'],
      ['{"type":"a","type":"response.create"}', 'duplicate_parameter'],
      ['{"Type":"response.create"}', 'unknown_parameter'],
    ] as const) {
      client.received.length = 0;
      client.socket.send(message);
      expect((await client.event('error')).error.code).to.equal(code);
      client.received.length = 0;
      client.socket.send(Buffer.from(message), { binary: true });
      expect((await client.event('error')).error.code).to.equal(code);
    }
    const event = '{"type":"response.create"}';
    const wide = Buffer.from(event, 'utf16le');
    for (const bytes of [wide, Buffer.concat([Buffer.from([0xff, 0xfe]), wide]), Buffer.from(wide).swap16()]) {
      client.received.length = 0;
      client.socket.send(bytes, { binary: true });
      expect((await client.event('error')).error.code).to.be.oneOf(['invalid_json', 'invalid_encoding']);
    }
    client.send({ type: 'last' });
    await upstream.got(1);
    expect(upstream.events).to.deep.equal([{ type: 'last' }]);
    client.socket.close();
    await client.whenClosed();
  });

  it('that are longer than they may be end the socket', async () => {
    const client = await open();
    client.socket.send(Buffer.alloc(2 * mebibyte + 1), { binary: true });
    expect((await client.whenClosed()).code).to.equal(1009);
    await until(() => upstream.socket.readyState === 3);
    const other = await open();
    upstream.socket.send(Buffer.alloc(2 * mebibyte + 1), { binary: true });
    expect((await other.event('error')).error.code).to.equal('upstream_invalid_response');
    expect((await other.whenClosed()).code).to.equal(1011);
  });

  it('wait at their sender while the other side does not read', async () => {
    const client = await open();
    const part = Buffer.alloc(mebibyte, 1);
    for (const [from, to, received] of [
      [client.socket, upstream.socket, upstream.received],
      [upstream.socket, client.socket, client.received],
    ] as const) {
      received.length = 0;
      to.pause();
      let sent = 0;
      for (let i = 0; i < 80; i += 1) from.send(part, { binary: true }, () => (sent += 1));
      // buffers of the system, of the gateway and of the other side take some of it, and then no more
      const isStill = async () => {
        const before = sent;
        await untilRead();
        return sent > 0 && sent === before;
      };
      await until(isStill);
      expect(sent).to.be.below(40);
      to.resume();
      await until(() => received.length === 80);
    }
    client.socket.close();
    await client.whenClosed();
  });

  for (const [code, reason] of [
    [1000, 'bye'],
    [4_321, 'a reason'],
  ] as const) {
    it(`end with the code ${code} on both sides, whichever closes`, async () => {
      const client = await open();
      const closed = once(upstream.socket, 'close');
      client.socket.close(code, reason);
      expect([(await closed)[0], (await closed)[1].toString()]).to.deep.equal([code, reason]);
      const other = await open();
      upstream.socket.close(code, reason);
      expect(await other.whenClosed()).to.deep.equal({ code, reason });
    });
  }

  it('end with an error where the upstream dies, and what was seen of a response is charged', async () => {
    const client = await open();
    upstream.onEvent = (_event, socket) => {
      socket.send(JSON.stringify({ type: 'response.created', response: { id: 'resp_d' } }));
      socket.send(JSON.stringify({ type: 'response.output_text.delta', response_id: 'resp_d', delta: 'Tagus, Douro' }));
    };
    client.send({ type: 'response.create' });
    await client.event('response.output_text.delta');
    upstream.socket.terminate();
    const { error } = await client.event('error');
    expect(error).to.include({ code: 'upstream_disconnected', type: 'server_error' });
    expect(await client.whenClosed()).to.deep.equal({ code: 1011, reason: 'upstream_disconnected' });
    const [record] = await gateway.charged(1);
    expect(record).to.include({ ending: 'upstream_failed', estimated: true, outputTokens: 4 });
  });

  it('go on to the end of the response when the client leaves, so that it is charged exactly', async () => {
    const client = await open();
    client.send({ type: 'response.create' });
    await upstream.got(1);
    const { socket } = upstream;
    socket.send(JSON.stringify({ type: 'response.created', response: { id: 'resp_l' } }));
    await client.event('response.created');
    client.socket.terminate();
    await untilRead();
    expect(socket.readyState).to.equal(1);
    const usage = { input_tokens: 5, output_tokens: 6, total_tokens: 11 };
    socket.send(JSON.stringify({ type: 'response.done', response: { id: 'resp_l', status: 'completed', usage } }));
    const [record] = await gateway.charged(1);
    expect(record).to.include({ inputTokens: 5, outputTokens: 6, estimated: false, ending: 'complete' });
    await until(() => socket.readyState === 3);
  });

  it('that do not come for long end the socket', async () => {
    const live = await startSocketGateway({
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl, timeouts: { firstByte: 300 } }],
      sockets: { idleTimeout: 200 },
    });
    const client = await SocketClient.open(`${live.url}/realtime?model=talk`, live.key);
    expect(await client.whenClosed()).to.deep.equal({ code: 1000, reason: 'idle' });
    const waiting = await SocketClient.open(`${live.url}/realtime?model=talk`, live.key);
    waiting.send({ type: 'response.create' });
    expect((await waiting.event('error')).error.code).to.equal('upstream_timeout');
    expect((await waiting.whenClosed()).code).to.equal(1011);
    await live.close();
    expect(live.usage).to.deep.equal([]);
  });

  it('end when the gateway closes, those of a response under way first', async () => {
    const live = await startSocketGateway({ upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }] });
    const url = `${live.url}/realtime?model=talk`;
    const idle = await SocketClient.open(url, live.key);
    const busy = await SocketClient.open(url, live.key);
    const { socket } = upstream;
    busy.send({ type: 'response.create' });
    await upstream.got(1);
    const closing = live.gateway.close();
    expect(await idle.whenClosed()).to.deep.equal({ code: 1001, reason: 'shutting_down' });
    const { status, body } = await refusalOf(url, { authorization: `Bearer ${live.key}` });
    expect([status, body.error.code]).to.deep.equal([503, 'shutting_down']);
    expect(upstream.handshakes).to.have.length(2);
    busy.send({ type: 'response.create' });
    expect((await busy.event('error')).error.code).to.equal('shutting_down');
    expect(busy.closed).to.equal(undefined);
    respond(socket);
    await busy.event('response.done');
    expect(await busy.whenClosed()).to.deep.equal({ code: 1001, reason: 'shutting_down' });
    await closing;
    expect(live.usage).to.have.length(1);
    await live.close();
  });

  it('end at the latest after drainTimeout, and the client is told', async () => {
    const live = await startSocketGateway({
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }],
      drainTimeout: 100,
    });
    const client = await SocketClient.open(`${live.url}/realtime?model=talk`, live.key);
    client.send({ type: 'response.create' });
    await upstream.got(1);
    upstream.socket.send(JSON.stringify({ type: 'response.created', response: { id: 'resp_s' } }));
    await client.event('response.created');
    await live.close();
    expect((await client.event('error')).error.code).to.equal('shutting_down');
    expect((await client.whenClosed()).code).to.equal(1001);
    expect(live.usage.map(({ ending }) => ending)).to.deep.equal(['upstream_failed']);
  });
});
