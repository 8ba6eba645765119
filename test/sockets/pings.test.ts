import { expect } from 'chai';
import { GatewayError } from '../../src/index.ts';
import { until } from '../support/until.ts';
import { SocketUpstream } from './socket-upstream.ts';
import { SocketClient, startSockets } from './support.ts';

describe('a WebSocket on which nothing happens', () => {
  let upstream: SocketUpstream;
  let sockets: Awaited<ReturnType<typeof startSockets>>;
  let url: string;
  let isRevoked: boolean;
  before(async () => {
    upstream = await SocketUpstream.start();
    const options = {
      async authenticate() {
        if (isRevoked) throw new GatewayError('invalid_api_key', 'revoked');
        return { userId: 'usr_1' };
      },
      pingInterval: 50,
    };
    sockets = await startSockets(upstream, {}, options);
    url = `${sockets.url}/realtime?model=talk`;
  });
  beforeEach(() => {
    isRevoked = false;
    upstream.reset();
  });
  after(async () => {
    await sockets.drain();
    sockets.close();
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
