import { expect } from 'chai';
import { WebSocket } from 'ws';
import { until } from '../support/until.ts';
import { untilRead } from '../support/until-read.ts';
import { SocketUpstream } from './socket-upstream.ts';
import { connectionOf, SocketClient, type SocketGateway, startSocketGateway } from './support.ts';

const mebibyte = 1024 * 1024;
const bodyMemory = 8 * mebibyte;
/** What one account may hold alone: as much as it leaves free, and half a chunk of its connection. */
const share = bodyMemory / 2 + 32 * 1024 + 1_024;
const length = 900 * 1024;

describe('the memory that WebSockets take', () => {
  let upstream: SocketUpstream;
  let gateway: SocketGateway;
  let otherKey: string;
  let clients: SocketClient[] = [];
  /** What each response and each handshake waits for. */
  let beforeRequest = Promise.resolve();
  before(async () => {
    upstream = await SocketUpstream.start();
    gateway = await start();
    otherKey = await gateway.newKey({ userId: 'usr_2' });
  });
  afterEach(async () => {
    for (const { socket } of clients) socket.terminate();
    clients = [];
    upstream.reset();
    beforeRequest = Promise.resolve();
    // whatever has ended them
    await until(async () => (await held()) === 0, undefined, 'nothing is held');
  });
  after(async () => {
    await gateway.close();
    await upstream.close();
  });

  function start(): Promise<SocketGateway> {
    return startSocketGateway({
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }],
      limits: { modelBodyBytes: mebibyte, bodyMemory },
      fixed: { socketMessageBytes: mebibyte },
      onRequest: () => beforeRequest,
    });
  }

  async function held(of = gateway): Promise<number> {
    const metric = await of.gateway.metrics().getSingleMetric('gateway_body_memory_bytes')?.get();
    return metric?.values[0]?.value ?? Number.NaN;
  }

  async function open(key = gateway.key): Promise<SocketClient> {
    const client = await SocketClient.open(`${gateway.url}/realtime?model=talk`, key);
    clients.push(client);
    return client;
  }

  const opening = '{"type":"x.y","value":"';
  const part = `${opening}${'x'.repeat(length - opening.length)}`;

  /** What another account does all the while. */
  async function others(): Promise<void> {
    upstream.onRequest = (_request, res) =>
      void res.writeHead(200, { 'content-type': 'application/json' }).end('{"object":"list","data":[{}],"model":"m"}');
    const other = await open(otherKey);
    const up = upstream.socket;
    const before = upstream.received.length;
    other.socket.send(`${part}"}`);
    await upstream.got(before + 1);
    up.send(`${part}"}`);
    await other.event('x.y');
    const response = await fetch(`http://127.0.0.1:${gateway.port}/v1/embeddings`, {
      method: 'POST',
      headers: { authorization: `Bearer ${otherKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', input: 'x'.repeat(length / 2) }),
    });
    expect(response.status, await response.text()).to.equal(200);
    other.socket.close();
    await other.whenClosed();
  }

  for (const sender of ['client', 'upstream'] as const) {
    it(`is bounded for an account whose ${sender}s send messages without an end`, async () => {
      const sides: {
        readonly client: SocketClient;
        readonly from: WebSocket;
        readonly to: { readonly length: number };
      }[] = [];
      for (let n = 1; n <= 10; n += 1) {
        const client = await open();
        const from = sender === 'client' ? client.socket : upstream.socket;
        sides.push({ client, from, to: sender === 'client' ? upstream.received : client.received });
        from.send(part, { fin: false });
        if (n <= 4) await until(async () => (await held()) >= n * length);
        else await client.whenClosed();
        expect(await held()).to.be.at.most(share);
      }
      for (const { client } of sides.slice(4)) {
        expect(client.closed).to.deep.equal({ code: 1013, reason: 'rate_limit_exceeded' });
        const { status, error } = await client.event('error');
        expect([status, error.code]).to.deep.equal([429, 'rate_limit_exceeded']);
      }
      await others();
      for (const { client, from, to } of sides.slice(0, 4)) {
        expect(client.closed).to.equal(undefined);
        const before = to.length;
        from.send('"}', { fin: true });
        await until(() => to.length === before + 1);
      }
    });
  }

  it('is bounded for an account that does not read what its upstreams send', async () => {
    const sides: { readonly client: SocketClient; readonly up: WebSocket }[] = [];
    const isClosed = ({ up }: (typeof sides)[number]) => up.readyState === WebSocket.CLOSED;
    for (let n = 0; n < 6; n += 1) {
      const client = await open();
      const side = { client, up: upstream.socket };
      sides.push(side);
      client.socket.pause();
      for (let i = 0; i < 40; i += 1) side.up.send(`${part}"}`);
      // buffers of the system take some of it, then those of the gateway
      const before = await held();
      await until(async () => {
        const now = await held();
        await untilRead();
        return isClosed(side) || (now > before + mebibyte && (await held()) === now);
      });
      expect(await held()).to.be.at.most(share);
    }
    const closed = sides.filter(isClosed);
    expect(closed.length).to.be.within(1, 5);
    await others();
    for (const { client } of sides) client.socket.resume();
    for (const { client, up } of sides.filter((side) => !closed.includes(side))) {
      await until(() => client.received.length === 40);
      expect(up.readyState).to.equal(WebSocket.OPEN);
    }
    for (const { client } of closed) {
      expect(await client.whenClosed()).to.deep.equal({ code: 1013, reason: 'rate_limit_exceeded' });
      expect(client.events.at(-1).error.code).to.equal('rate_limit_exceeded');
    }
  });

  it('is shared with the bodies of requests', async () => {
    for (let n = 1; n <= 4; n += 1) {
      const client = await open();
      client.socket.send(part, { fin: false });
      await until(async () => (await held()) >= n * length);
    }
    const response = await fetch(`http://127.0.0.1:${gateway.port}/v1/embeddings`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', input: 'x'.repeat(length) }),
    });
    expect(response.status).to.equal(429);
    expect(await response.json()).to.have.nested.property('error.code', 'rate_limit_exceeded');
  });

  const endings: [what: string, end: (client: WebSocket, up: WebSocket) => unknown, left?: number][] = [
    ['the client closes', (client) => client.close()],
    ['the client is lost', (client) => client.terminate()],
    ['the upstream closes', (_client, up) => up.close()],
    ['the upstream is lost', (_client, up) => up.terminate()],
    ['the message gets longer than it may be', (client) => client.send(part, { fin: false })],
    ['the message ends', (client) => client.send('"}'), length],
  ];
  for (const [what, end, left = 0] of endings) {
    it(`is given back when ${what}`, async () => {
      const client = await open();
      const up = upstream.socket;
      client.socket.send(part, { fin: false });
      up.send(part, { fin: false });
      await until(async () => (await held()) >= 2 * length);
      end(client.socket, up);
      await until(async () => Math.abs((await held()) - left) < 64 * 1024, undefined, 'it is given back');
      expect(await held()).to.be.at.least(left);
    });
  }

  it('is given back when the gateway closes', async () => {
    const live = await start();
    const client = await SocketClient.open(`${live.url}/realtime?model=talk`, live.key);
    client.socket.send(part, { fin: false });
    await until(async () => (await held(live)) >= length);
    await live.close();
    expect(await held(live)).to.equal(0);
    expect((await client.whenClosed()).code).to.equal(1001);
  });

  it('counts what short messages take that wait, and not their bytes alone', async () => {
    let goOn = () => {};
    beforeRequest = new Promise((resolve) => {
      goOn = resolve;
    });
    // all in one write: of several, the gateway reads what the first brings, and waits; of one, a system may hold back half
    const frame = Buffer.from([0x82, 0x81, 0, 0, 0, 0, 1]);
    for (let n = 1; n <= 2; n += 1) {
      const client = await SocketClient.open(`${gateway.url}/responses`, gateway.key);
      clients.push(client);
      client.send({ type: 'response.create', model: 'talk', input: 'x' });
      connectionOf(client.socket).write(Buffer.concat(Array.from({ length: 6_000 }, () => frame)));
    }
    await until(async () => (await held()) > mebibyte).finally(() => goOn());
    await upstream.got(2 * 6_001);
    await until(async () => (await held()) === 0);
    for (const { closed } of clients) expect(closed).to.equal(undefined);
  });

  it('does not grow with pings, of which nothing is kept', async () => {
    const client = await open();
    let pongs = 0;
    client.socket.on('pong', () => (pongs += 1));
    for (let n = 1; n <= 10_000; n += 1) {
      client.socket.ping('x'.repeat(120));
      if (n % 100 === 0) await until(() => pongs === n);
    }
    expect(await held()).to.equal(0);
    client.send({ type: 'x.y' });
    await upstream.got(1);
  });

  it('is not taken by a message of more frames than it has bytes for', async () => {
    const client = await open();
    for (let n = 0; n < 5_000; n += 1) client.socket.send('x', { fin: false });
    expect((await client.whenClosed()).code).to.equal(1008);
  });
});
