import { createServer, type RequestListener, type Server } from 'node:http';
import { expect } from 'chai';
import { createDispatcher, createHttpClient, type DispatcherOptions } from '../../src/outbound/client.ts';
import { OutboundError } from '../../src/outbound/outbound-error.ts';
import { listenOn } from '../support/listen.ts';

describe('a connection pool that checks addresses', () => {
  let server: Server;
  let port: number;
  let calls: number;
  let dispatcher: ReturnType<typeof createDispatcher>;
  const answer: RequestListener = (_req, res) => {
    calls += 1;
    res.end('ok');
  };

  beforeEach(async () => {
    calls = 0;
    server = createServer(answer);
    port = await listenOn(server);
  });

  afterEach(async () => {
    await dispatcher.destroy();
    server.closeAllConnections();
    server.close();
  });

  async function get(url: string, options: DispatcherOptions): Promise<string> {
    dispatcher = createDispatcher(options);
    try {
      const { status, data } = await createHttpClient(dispatcher).request({ url });
      data.destroy();
      return String(status);
    } catch (error) {
      expect(error).to.be.instanceOf(OutboundError);
      return (error as OutboundError).code;
    }
  }

  const notLoopback = { allowAddress: (address: string) => address !== '127.0.0.1' && address !== '::1' };

  it('connects to an address that is allowed', async () => {
    expect(await get(`http://127.0.0.1:${port}/`, { allowAddress: () => true })).to.equal('200');
  });

  for (const host of [
    '127.0.0.1',
    '[::1]',
    '2130706433',
    '0x7f.1',
    'localhost',
    'a.localhost',
    'LOCALHOST',
    'localhost.',
  ]) {
    for (const scheme of ['http', 'https']) {
      it(`refuses ${scheme}://${host} before a connection is made`, async () => {
        expect(await get(`${scheme}://${host}:${port}/`, notLoopback)).to.equal('address_not_allowed');
        expect(calls).to.equal(0);
      });
    }
  }

  it('refuses a name that resolves to an allowed and a forbidden address', async () => {
    const resolve = async () => ['93.184.216.34', '127.0.0.1'];
    expect(await get(`http://mixed.example:${port}/`, { ...notLoopback, resolve })).to.equal('address_not_allowed');
  });

  it('reports dns_failed for a name that resolves to no address', async () => {
    expect(await get(`http://empty.example:${port}/`, { ...notLoopback, resolve: async () => [] })).to.equal(
      'dns_failed',
    );
  });

  it('resolves a name once, and connects to the address that it has checked', async () => {
    let lookUps = 0;
    const resolve = async () => {
      lookUps += 1;
      return [lookUps === 1 ? '127.0.0.1' : '10.0.0.1'];
    };
    expect(await get(`http://flips.example:${port}/`, { allowAddress: (a) => a === '127.0.0.1', resolve })).to.equal(
      '200',
    );
    expect(lookUps).to.equal(1);
  });

  it('connects to localhost over the only loopback address that is allowed', async () => {
    expect(await get(`http://localhost:${port}/`, { allowAddress: (a) => a === '127.0.0.1' })).to.equal('200');
  });

  it('reports dns_failed when the name does not resolve', async () => {
    const resolve = async () => {
      throw Object.assign(new Error('queryA ENOTFOUND'), { code: 'ENOTFOUND' });
    };
    expect(await get('http://nowhere.example/', { ...notLoopback, resolve })).to.equal('dns_failed');
  });

  it('reports connect_timeout when the name server does not answer', async () => {
    const resolve = () => new Promise<string[]>(() => {});
    expect(await get('http://slow.example/', { ...notLoopback, connectTimeout: 50, resolve })).to.equal(
      'connect_timeout',
    );
  });
});
