import { createServer } from 'node:http';
import { expect } from 'chai';
import { GatewayError } from '../../src/errors.ts';
import { createProxy } from '../../src/proxy/proxy.ts';
import { Sockets } from '../../src/sockets/sockets.ts';
import { listenOn } from '../support/listen.ts';
import { silentLogger } from '../support/logger.ts';
import { noBackgroundResponses, noStoredObjects } from '../support/no-stored-objects.ts';
import { spec } from '../support/spec.ts';
import { until } from '../support/until.ts';
import { SocketUpstream } from './socket-upstream.ts';
import { SocketClient } from './support.ts';

describe('a WebSocket on which nothing happens', () => {
  let upstream: SocketUpstream;
  let sockets: Sockets;
  let url: string;
  let isRevoked: boolean;
  const server = createServer();
  before(async () => {
    upstream = await SocketUpstream.start();
    const proxy = createProxy({
      upstreams: [{ name: 'up', baseUrl: upstream.baseUrl }],
      logger: silentLogger,
      idempotencySecret: Buffer.alloc(32, 1),
      storedObjects: noStoredObjects,
      backgroundResponses: noBackgroundResponses,
    });
    sockets = new Sockets({
      relaying: proxy.relaying,
      async authenticate() {
        if (isRevoked) throw new GatewayError('invalid_api_key', 'revoked');
        return { userId: 'usr_1' };
      },
      spec,
      maxSocketMessageBytes: 1_024,
      maxSockets: 10,
      socketIdleTimeout: 60_000,
      pingInterval: 50,
      observers: [],
      logger: silentLogger,
    });
    sockets.attach(server);
    url = `ws://127.0.0.1:${await listenOn(server)}/v1/realtime?model=talk`;
  });
  beforeEach(() => {
    isRevoked = false;
    upstream.reset();
  });
  after(async () => {
    await sockets.drain(0);
    server.close();
    await upstream.close();
  });

  it('is kept as long as both sides answer pings', async () => {
    const client = await SocketClient.open(url, 'key');
    let pings = 0;
    client.socket.on('ping', () => (pings += 1));
    await until(() => pings >= 5);
    expect(client.closed).to.equal(undefined);
    client.socket.close();
    await client.whenClosed();
  });

  it('ends when its upstream answers no pings', async () => {
    const client = await SocketClient.open(url, 'key');
    upstream.socket.pause();
    expect((await client.event('error')).error.code).to.equal('upstream_disconnected');
    expect((await client.whenClosed()).code).to.equal(1011);
  });

  it('ends when its client answers no pings', async () => {
    const client = await SocketClient.open(url, 'key');
    client.socket.pause();
    await until(() => upstream.socket.readyState === 3);
    client.socket.terminate();
  });

  it('ends when its key is revoked', async () => {
    const client = await SocketClient.open(url, 'key');
    isRevoked = true;
    expect((await client.event('error')).error.code).to.equal('invalid_api_key');
    expect(await client.whenClosed()).to.deep.equal({ code: 1008, reason: 'invalid_api_key' });
  });
});
