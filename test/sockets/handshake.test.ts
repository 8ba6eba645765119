import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import express from 'express';
import { WebSocket } from 'ws';
import { connectRaw } from '../http/raw-client.ts';
import { listenOn } from '../support/listen.ts';
import { answer, SocketUpstream } from './socket-upstream.ts';
import { refusalOf, SocketClient, type SocketGateway, startSocketGateway } from './support.ts';

describe('the handshake of a WebSocket', () => {
  let first: SocketUpstream;
  let second: SocketUpstream;
  let gateway: SocketGateway;
  let url: string;
  before(async () => {
    [first, second] = await Promise.all([SocketUpstream.start(), SocketUpstream.start()]);
    gateway = await startSocketGateway({
      upstreams: [
        { name: 'dead', baseUrl: 'http://127.0.0.1:1/v1', models: ['talk'] },
        { name: 'first', baseUrl: first.baseUrl, priority: 1, models: ['talk', 'gpt-*'], maskErrors: true },
        { name: 'second', baseUrl: second.baseUrl, priority: 2, models: ['talk', 'claude'] },
      ],
      limits: { perKey: ({ userId }) => (userId === 'usr_limited' ? { requestsPerMinute: 0 } : undefined) },
      sockets: { maxPerAccount: 3 },
    });
    url = `${gateway.url}/realtime?model=talk`;
  });
  afterEach(() => {
    first.reset();
    second.reset();
  });
  after(async () => {
    await gateway.close();
    await Promise.all([first.close(), second.close()]);
  });

  const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

  describe('is refused over HTTP, and no upstream is asked,', () => {
    afterEach(() => expect([...first.handshakes, ...second.handshakes]).to.deep.equal([]));

    it('without a key', async () => {
      const { status, body, headers } = await refusalOf(url, {});
      expect([status, body.error.code]).to.deep.equal([401, 'missing_api_key']);
      expect(headers['www-authenticate']).to.equal('Bearer');
      expect(headers['x-request-id']).to.match(/^req_/);
    });

    it('with a key that nobody has, as a header or as a subprotocol', async () => {
      const unknown = `emg_${'0'.repeat(26)}_${'A'.repeat(43)}`;
      expect((await refusalOf(url, bearer(unknown))).body.error.code).to.equal('invalid_api_key');
      const { status, body } = await refusalOf(url, {}, ['realtime', `openai-insecure-api-key.${unknown}`]);
      expect([status, body.error.code]).to.deep.equal([401, 'invalid_api_key']);
      expect(JSON.stringify(body)).to.not.include(unknown);
    });

    it('with a key for other things', async () => {
      const { status, body } = await refusalOf(url, bearer(await gateway.newKey({ scopes: ['webhooks'] })));
      expect([status, body.error.code]).to.deep.equal([403, 'insufficient_scope']);
    });

    it('with a key for other models, or a model that nobody serves', async () => {
      const { status, body } = await refusalOf(url, bearer(await gateway.newKey({ models: ['gpt-mini'] })));
      expect([status, body.error.code]).to.deep.equal([403, 'model_not_allowed']);
      const unknown = await refusalOf(`${gateway.url}/realtime?model=other`, bearer(gateway.key));
      expect([unknown.status, unknown.body.error.code]).to.deep.equal([404, 'model_not_found']);
    });

    it('of an account that is over its limits', async () => {
      const { status, body, headers } = await refusalOf(url, bearer(await gateway.newKey({ userId: 'usr_limited' })));
      expect([status, body.error.code]).to.deep.equal([429, 'rate_limit_exceeded']);
      expect(headers).to.include({ 'x-ratelimit-limit-requests': '0' });
      expect(headers).to.have.property('retry-after');
    });

    it('by a page of another site that names no key: a browser adds the cookies of its user', async () => {
      const page = await refusalOf(url, { origin: 'https://evil.example' });
      expect([page.status, page.body.error.code]).to.deep.equal([403, 'cross_origin_request']);
    });

    it('for a call that the account does not have, and for a model that is named twice', async () => {
      const call = await refusalOf(`${gateway.url}/realtime?call_id=rtc_1`, bearer(gateway.key));
      expect([call.status, call.body.error.code]).to.deep.equal([404, 'realtime_call_not_found']);
      const twice = await refusalOf(`${url}&model=claude`, bearer(gateway.key));
      expect([twice.status, twice.body.error.code]).to.deep.equal([400, 'duplicate_parameter']);
    });
  });

  it('goes to the next upstream where one cannot be reached, or takes no WebSockets', async () => {
    first.refuse = answer('404 Not Found', '{"detail":"Not Found"}');
    const client = await SocketClient.open(url, gateway.key);
    expect([first.handshakes.length, second.sockets.length]).to.deep.equal([1, 1]);
    client.socket.close();
    await client.whenClosed();
  });

  it('is answered as its upstream answers it, but for what a client must not see', async () => {
    const ask = (model: string) => refusalOf(`${gateway.url}/realtime?model=${model}`, bearer(gateway.key));
    second.refuse = answer('400 Bad Request', '{"error":{"code":"beta_off"}}', ['content-type: application/json']);
    expect(await ask('claude')).to.deep.include({ status: 400, body: { error: { code: 'beta_off' } } });
    second.refuse = answer('401 Unauthorized', '{"error":{"message":"sk-up is wrong"}}');
    expect((await ask('claude')).body.error.code).to.equal('upstream_auth_failed');
    first.refuse = answer('429 Too Many Requests', '{"error":"organization org-1"}', ['x-should-retry: false']);
    const masked = await ask('gpt-1');
    expect([masked.status, masked.body.error.code]).to.deep.equal([429, 'upstream_rate_limited']);
  });

  it('for responses is 426 where no upstream takes WebSockets, on which clients use HTTP at once', async () => {
    first.refuse = answer('404 Not Found', '{}');
    // as servers on uvicorn refuse it
    second.refuse = answer('403 Forbidden', '');
    const live = await startSocketGateway({
      upstreams: [
        { name: 'one', baseUrl: first.baseUrl },
        { name: 'two', baseUrl: second.baseUrl },
      ],
    });
    const { status, body } = await refusalOf(`${live.url}/responses`, bearer(live.key));
    expect([status, body.error.code]).to.deep.equal([426, 'websocket_not_served']);
    expect([first.handshakes.length, second.handshakes.length]).to.deep.equal([1, 1]);
    await live.close();
  });

  it('is refused to an account that has as many sockets as it may have', async () => {
    const clients = await Promise.all([1, 2, 3].map(() => SocketClient.open(url, gateway.key)));
    const { status, body } = await refusalOf(url, bearer(gateway.key));
    expect([status, body.error.code]).to.deep.equal([429, 'rate_limit_exceeded']);
    expect(body.error.message).to.include('3 WebSockets');
    const other = await SocketClient.open(url, await gateway.newKey({ userId: 'usr_2' }));
    for (const client of [...clients, other]) {
      client.socket.close();
      await client.whenClosed();
    }
    const again = await SocketClient.open(url, gateway.key);
    again.socket.close();
    await again.whenClosed();
  });

  it('behind a request that is not answered yet ends the connection', async () => {
    const server = createServer((_req, res) => void setImmediate(() => setImmediate(() => res.end('late'))));
    gateway.gateway.attach(server);
    const client = connectRaw(await listenOn(server));
    const handshake = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13'];
    const request = ['GET /v1/realtime?model=talk HTTP/1.1', 'Host: localhost', ...handshake, '', ''].join('\r\n');
    client.write(`GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n${request}`);
    await once(client.socket, 'close');
    const next = connectRaw((server.address() as AddressInfo).port);
    next.write('GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n'.repeat(2));
    await next.received(/late[\s\S]*late/);
    next.socket.destroy();
    server.close();
    server.closeAllConnections();
  });

  it('that is not valid is refused', async () => {
    const client = connectRaw(gateway.port);
    const lines = [
      'GET /v1/realtime?model=talk HTTP/1.1',
      'Host: localhost',
      'Connection: Upgrade',
      'Upgrade: websocket',
    ];
    client.write([...lines, 'Sec-WebSocket-Version: 12', '', ''].join('\r\n'));
    expect(await client.received(/\}$/)).to.match(/^HTTP\/1\.1 400 [\s\S]*sec-websocket-version: 13, 8\r\n/);
    client.socket.destroy();
  });

  it('for another path is left to the listeners of the host', async () => {
    const server = createServer(express().use(gateway.gateway.router));
    gateway.gateway.attach(server, { prefix: '/api' });
    server.on('upgrade', (req, socket) => {
      if (req.url?.startsWith('/mine')) socket.end('HTTP/1.1 418 Mine\r\ncontent-length: 2\r\n\r\n{}');
    });
    const base = `ws://127.0.0.1:${await listenOn(server)}`;
    expect((await refusalOf(`${base}/mine`, {})).status).to.equal(418);
    expect((await refusalOf(`${base}/api/v1/realtime?model=talk`, {})).body.error.code).to.equal('missing_api_key');
    const client = await SocketClient.open(`${base}/api/v1/realtime?model=talk`, gateway.key);
    client.socket.close();
    await client.whenClosed();
    // nobody takes it: the gateway leaves it alone where others listen
    const unprefixed = new WebSocket(`${base}/v1/realtime?model=talk`, { handshakeTimeout: 100 });
    const [error] = await once(unprefixed, 'error');
    expect(error.message).to.include('timed out');
    server.close();
    server.closeAllConnections();
  });

  it('for another path is answered as without a listener where nobody else listens', async () => {
    const { status, body } = await refusalOf(`${gateway.url}/models`, bearer(gateway.key));
    expect([status, body.error.code]).to.deep.equal([426, 'websocket_not_served']);
    expect((await refusalOf(`${gateway.url}/other`, bearer(gateway.key))).status).to.equal(404);
  });

  it('to a server that had another gateway before, which is closed, is taken', async () => {
    const server = createServer((_req, res) => res.end('served'));
    const before = await startSocketGateway({ upstreams: [{ name: 'first', baseUrl: first.baseUrl }] });
    before.gateway.attach(server);
    const port = await listenOn(server);
    await before.close();
    gateway.gateway.attach(server);
    const client = await SocketClient.open(`ws://127.0.0.1:${port}/v1/realtime?model=talk`, gateway.key);
    expect(server.listenerCount('upgrade')).to.equal(1);
    client.socket.close();
    await client.whenClosed();
    server.close();
    server.closeAllConnections();
  });

  it('is not seen in another upgrade, which has so many headers that some may be missing: it is refused', async () => {
    const server = createServer((_req, res) => res.end('served'));
    server.maxHeadersCount = 5;
    gateway.gateway.attach(server);
    const client = connectRaw(await listenOn(server));
    const more = ['A: 1', 'B: 2', 'Content-Length: 24', '', 'GET /hidden HTTP/1.1\r\n\r\n'];
    client.write(['POST / HTTP/1.1', 'Host: a', 'Connection: Upgrade', 'Upgrade: h2c', ...more].join('\r\n'));
    await client.received(/^HTTP\/1\.1 431 /);
    await once(client.socket, 'close');
    server.close();
  });

  it('is not seen in another upgrade: the request is served, with its body', async () => {
    const body = JSON.stringify({ url: 'http://127.0.0.1:9/hook', events: ['credits.low'] });
    const client = connectRaw(gateway.port);
    // as the HTTP client of Java sends each of its requests
    const upgrade = ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA'];
    const head = ['POST /v1/webhooks HTTP/1.1', 'Host: localhost', ...upgrade, `Authorization: Bearer ${gateway.key}`];
    client.write(
      [...head, 'Content-Type: application/json', `Content-Length: ${body.length}`, '', body.slice(0, 9)].join('\r\n'),
    );
    await new Promise(setImmediate);
    client.write(body.slice(9));
    await client.received(/^HTTP\/1\.1 201 Created/);
    client.write(`GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${gateway.key}\r\n\r\n`);
    await client.received(/HTTP\/1\.1 200 OK/);
    client.socket.destroy();
  });
});
