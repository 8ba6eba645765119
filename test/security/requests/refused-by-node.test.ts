import { createServer, type Server } from 'node:http';
import { connect } from 'node:net';
import { expect } from 'chai';
import { hardenServer } from '../../../src/index.ts';
import { connectRaw, head } from '../../http/raw-client.ts';
import { listenOn } from '../../support/listen.ts';

/** The status, the lower-case headers and the JSON body of the only answer in a text. */
function parse(text: string) {
  const [top = '', body = ''] = text.split('\r\n\r\n');
  const [line, ...headers] = top.split('\r\n');
  return { line, headers: headers.map((header) => header.toLowerCase()), error: JSON.parse(body).error };
}

describe('what Node refuses before the gateway sees it', () => {
  let server: Server;
  let port: number;

  const short = { headersTimeout: 200, requestTimeout: 300, connectionsCheckingInterval: 20 };

  async function start(prepare = (_server: Server): void => {}, properties: Partial<Server> = {}): Promise<void> {
    server = createServer((req, res) => {
      if (req.url === '/stream') res.write('begun;');
      else if (req.url === '/body') req.resume().on('end', () => res.end('whole'));
      else if (req.url !== '/silent') res.end('well');
    });
    Object.assign(hardenServer(server), properties);
    prepare(server);
    port = await listenOn(server);
  }

  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  const get = (path: string) => head('GET', path);
  const chunked = head('POST', '/body', { 'transfer-encoding': 'chunked' });
  for (const [what, sent, line, code] of [
    ['no HTTP', 'SSH-2.0-x\r\n\r\n', '400 Bad Request', 'malformed_request'],
    ['a broken header', 'GET / HTTP/1.1\r\nhost localhost\r\n\r\n', '400 Bad Request', 'malformed_request'],
    [
      'two lengths',
      head('POST', '/body', { 'content-length': '1', 'Content-Length': '2' }),
      '400 Bad Request',
      'malformed_request',
    ],
    ['a broken chunk', `${chunked}zz\r\n`, '400 Bad Request', 'malformed_request'],
    ['a chunk of extensions', `${chunked}1;${'x'.repeat(20_000)}`, '413 Payload Too Large', 'request_too_large'],
    [
      'a head of 1 MB',
      `GET / HTTP/1.1\r\nx: ${'x'.repeat(1_000_000)}\r\n`,
      '431 Request Header Fields Too Large',
      'headers_too_large',
    ],
    ['a head that stops', 'GET / HT', '408 Request Timeout', 'request_timeout'],
    [
      'a body that stops',
      `${head('POST', '/body', { 'content-length': '9' })}x`,
      '408 Request Timeout',
      'request_timeout',
    ],
    ['an unknown expectation', head('GET', '/', { expect: 'cake' }), '417 Expectation Failed', 'expectation_failed'],
  ] as const) {
    it(`is answered with a JSON error and a closed connection: ${what}`, async () => {
      // where no time limit is meant to pass, none is short: the process may be busy
      await start(undefined, code === 'request_timeout' ? short : {});
      const client = connectRaw(port);
      client.write(sent);
      const answer = parse(await client.ended());
      expect(answer.line).to.equal(`HTTP/1.1 ${line}`);
      expect(answer.headers).to.include.members(['connection: close', 'content-type: application/json']);
      expect(answer.error).to.have.all.keys('message', 'type', 'param', 'code');
      expect(answer.error).to.include({ type: 'invalid_request_error', code });
    });
  }

  it('is answered without a body where the request is a HEAD', async () => {
    await start();
    const client = connectRaw(port);
    client.write(`${head('HEAD', '/body', { 'transfer-encoding': 'chunked' })}zz\r\n`);
    expect(await client.ended()).to.match(/^HTTP\/1\.1 400 Bad Request\r\n[\s\S]*\r\nconnection: close\r\n\r\n$/);
  });

  it('is not written into an answer that has begun', async () => {
    await start();
    const client = connectRaw(port);
    client.write(get('/stream'));
    await client.received(/begun;/);
    client.write('no HTTP\r\n\r\n');
    expect(await client.ended()).to.match(/begun;\r\n$/);
  });

  it('gets no answer that a client could take for that of an earlier request', async () => {
    await start();
    const client = connectRaw(port);
    client.write(`${get('/silent')}no HTTP\r\n\r\n`);
    expect(await client.ended()).to.equal('');
  });

  it('is answered after an answer that is complete', async () => {
    await start();
    const client = connectRaw(port);
    client.write(get('/'));
    await client.received(/well$/);
    client.write('no HTTP\r\n\r\n');
    expect(await client.ended()).to.match(/well(\r\n0\r\n\r\n)?HTTP\/1\.1 400 [\s\S]*"code":"malformed_request"/);
  });

  it('leaves the process running and no connection open when clients reset or read nothing', async () => {
    await start();
    const clients = Array.from({ length: 20 }, (_, i) => {
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true }).on('error', () => {});
      const junk = (): void => void socket.write('no HTTP\r\n\r\n'.repeat(1_000), (error) => error ?? junk());
      socket.once('connect', () => {
        junk();
        if (i % 2 === 0) setImmediate(() => socket.resetAndDestroy());
      });
      return new Promise((resolve) => socket.once('close', resolve));
    });
    await Promise.all(clients);
    const client = connectRaw(port);
    client.write(get('/'));
    expect(await client.received(/well/)).to.include('200 OK');
    client.socket.destroy();
  });

  it('is left to the listeners of a host, even if they are added later', async () => {
    await start((hardened) => {
      hardened.on('clientError', (_error, socket) => void socket.end('HTTP/1.1 499 Mine\r\n\r\n'));
      hardened.on('checkExpectation', (_req, res) => void res.writeHead(200).end('cake'));
    });
    for (const [sent, answer] of [
      ['no HTTP\r\n\r\n', /^HTTP\/1\.1 499 Mine\r\n\r\n$/],
      [head('GET', '/', { expect: 'cake', connection: 'close' }), /^HTTP\/1\.1 200 OK[\s\S]*cake/],
    ] as const) {
      const client = connectRaw(port);
      client.write(sent);
      expect(await client.ended()).to.match(answer);
    }
  });

  it('is answered once when a server is hardened twice', async () => {
    await start((hardened) => void hardenServer(hardened));
    const client = connectRaw(port);
    client.write('no HTTP\r\n\r\n');
    expect(parse(await client.ended()).error.code).to.equal('malformed_request');
  });
});
