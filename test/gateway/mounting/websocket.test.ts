import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import { expect } from 'chai';
import express5 from 'express';
import express4 from 'express4';
import type { Connection } from 'mongoose';
import { WebSocket } from 'undici';
import type { ModelGateway } from '../../../src/index.ts';
import { connectRaw } from '../../http/raw-client.ts';
import { createGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { freshDatabase } from '../../support/mongo.ts';

/** What a WebSocket client sends to open a connection (RFC 6455, section 4.1), as codex does to /v1/responses. */
const handshake = [
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
  'OpenAI-Beta: responses_websockets=2026-02-06',
];

describe('a WebSocket handshake', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let gateway: ModelGateway;
  let key: string;
  before(async () => {
    database = await freshDatabase();
    gateway = await createGateway({ mongo: database.connection as Connection });
    ({ key } = await gateway.keys.create({ userId: 'usr_1', scopes: ['models', 'webhooks'] }));
  });
  after(async () => {
    await gateway.close();
    await database.drop();
  });

  /** Sends a request, and parses its answer. */
  async function exchange(port: number, [first, ...lines]: readonly string[]) {
    const client = connectRaw(port);
    client.write([first, 'Host: localhost', ...lines, '', ''].join('\r\n'));
    const text = await client.received(/\r\n\r\n[\s\S]*\}$/);
    client.socket.destroy();
    const [head = '', body = ''] = text.split('\r\n\r\n');
    const [status = '', ...fields] = head.split('\r\n');
    const headers = Object.fromEntries(
      fields.map((field) => field.toLowerCase().split(/: ?(.*)/, 2) as [string, string]),
    );
    return { status: Number(status.split(' ')[1]), headers, body: body.slice(body.indexOf('{')) };
  }

  const hosts: [name: string, app: () => RequestListener][] = [
    ['in Express 5', () => express5().use(gateway.router)],
    ['in Express 4', () => (express4 as unknown as typeof express5)().use(gateway.router)],
    ['behind no host, as stand-alone', () => gateway.router],
  ];
  for (const [name, app] of hosts) {
    it(`to a path that the gateway serves is answered 426, ${name}`, async () => {
      const server = await listen(app());
      for (const path of ['/v1/responses', '/v1/chat/completions', '/v1/models', '/v1/models/a/b', '/v1/webhooks']) {
        const answer = await exchange(server.port, [`GET ${path} HTTP/1.1`, ...handshake]);
        expect(answer.status, path).to.equal(426);
        expect(answer.headers).to.include({ upgrade: 'http/1.1', connection: 'upgrade', 'cache-control': 'no-store' });
        expect(answer.headers['x-request-id']).to.match(/^req_/);
        const { error } = JSON.parse(answer.body);
        expect(error).to.include({ code: 'websocket_not_served', type: 'invalid_request_error', param: null });
        expect(error.message).to.include('send the request over HTTP');
      }
      await server.close();
    });
  }

  it('leaves the connection in use for the requests that follow over HTTP', async () => {
    const server = await listen(gateway.router);
    const client = connectRaw(server.port);
    client.write(['GET /v1/responses HTTP/1.1', 'Host: localhost', ...handshake, '', ''].join('\r\n'));
    await client.received(/^HTTP\/1\.1 426 Upgrade Required\r\n[\s\S]*\}$/);
    client.write(`GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n\r\n`);
    await client.received(/HTTP\/1\.1 200 OK\r\n/);
    client.socket.destroy();
    await server.close();
  });

  it('whose Upgrade a proxy has taken away is answered 426 too', async () => {
    const server = await listen(gateway.router);
    const passed = handshake.filter((line) => line.startsWith('Sec-'));
    expect(await exchange(server.port, ['GET /v1/responses HTTP/1.1', ...passed])).to.include({ status: 426 });
    expect(await exchange(server.port, ['GET /v1/responses HTTP/1.1'])).to.include({ status: 405 });
    await server.close();
  });

  it('is asked for at a path that takes WebSockets alone, and refused where the server does not attach the gateway', async () => {
    const server = await listen(gateway.router);
    for (const [method, status, code, upgrade, path] of [
      ['GET', 426, 'websocket_required', 'websocket', '/v1/realtime'],
      ['POST', 405, 'method_not_allowed', undefined, '/v1/realtime'],
      ['GET', 426, 'websocket_required', 'websocket', '/v1/realtime/translations'],
    ] as const) {
      const answer = await exchange(server.port, [`${method} ${path}?model=gpt-realtime HTTP/1.1`]);
      expect([answer.status, JSON.parse(answer.body).error.code]).to.deep.equal([status, code]);
      expect(answer.headers.upgrade).to.equal(upgrade);
    }
    const refused = await exchange(server.port, ['GET /v1/realtime?model=gpt-realtime HTTP/1.1', ...handshake]);
    expect(refused).to.include({ status: 426 });
    expect(refused.headers.upgrade).to.equal('http/1.1');
    expect(JSON.parse(refused.body).error.message).to.include('gateway.attach(server)');
    const twice = await exchange(server.port, ['GET /v1/v1/realtime HTTP/1.1']);
    expect(JSON.parse(twice.body).error.code).to.equal('endpoint_not_served');
    await server.close();
  });

  it('ends a client at once, and the next request is served', async () => {
    const server = await listen(express5().use(gateway.router));
    const socket = new WebSocket(`${server.url.replace('http', 'ws')}/v1/responses`);
    await once(socket, 'error');
    const models = await fetch(`${server.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
    expect(models.status).to.equal(200);
    await server.close();
  });

  it('to any other path is left to the host', async () => {
    const app = express5().use(gateway.router);
    app.get('/socket', (_req, res) => void res.json({ host: true }));
    const server = await listen(app);
    expect(await exchange(server.port, ['GET /socket HTTP/1.1', ...handshake])).to.deep.include({
      status: 200,
      body: '{"host":true}',
    });
    await server.close();
  });

  for (const [what, request] of [
    ['an upgrade to h2c', ['GET /v1/models HTTP/1.1', 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c']],
    ['an upgrade to TLS', ['GET /v1/models HTTP/1.1', 'Connection: Upgrade', 'Upgrade: TLS/1.0']],
    ['Connection: Upgrade alone', ['GET /v1/models HTTP/1.1', 'Connection: Upgrade']],
  ] as const) {
    it(`is not seen in ${what}: the request is served (RFC 9110, section 7.8)`, async () => {
      const server = await listen(express5().use(gateway.router));
      const settings = ['HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA', `Authorization: Bearer ${key}`];
      expect(await exchange(server.port, [...request, ...settings])).to.include({ status: 200 });
      await server.close();
    });
  }

  it('is not seen in a POST, whose body is read whatever it asks to upgrade to', async () => {
    const server = await listen(express5().use(gateway.router));
    for (const upgrade of ['h2c', 'websocket']) {
      const body = '{"url":"http://127.0.0.1:9/hook","events":["credits.low"]}';
      const response = connectRaw(server.port);
      response.write(
        [
          'POST /v1/webhooks HTTP/1.1',
          'Host: localhost',
          'Connection: Upgrade, HTTP2-Settings',
          `Upgrade: ${upgrade}`,
          'HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA',
          `Authorization: Bearer ${key}`,
          'Content-Type: application/json',
          `Content-Length: ${body.length}`,
          '',
          body,
        ].join('\r\n'),
      );
      await response.received(/^HTTP\/1\.1 201 Created/);
      response.socket.destroy();
    }
    await server.close();
  });
});
