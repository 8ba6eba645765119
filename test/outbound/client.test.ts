import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { expect } from 'chai';
import { createDispatcher, createHttpClient } from '../../src/outbound/client.ts';
import { classify, type OutboundError } from '../../src/outbound/outbound-error.ts';
import { listenOn, nobody } from '../support/listen.ts';

describe('the HTTP client', () => {
  let server: Server;
  let url: string;
  let listener: RequestListener;
  let dispatcher: ReturnType<typeof createDispatcher>;

  beforeEach(async () => {
    server = createServer((req, res) => listener(req, res));
    url = `http://127.0.0.1:${await listenOn(server)}`;
    dispatcher = createDispatcher({ connectTimeout: 1_000 });
  });

  afterEach(async () => {
    await dispatcher.destroy();
    server.closeAllConnections();
    server.close();
  });

  const client = () => createHttpClient(dispatcher);
  const failure = (promise: Promise<unknown>): Promise<OutboundError> =>
    promise.then(
      () => expect.fail('should have failed'),
      (error) => error,
    );
  const text = async (stream: AsyncIterable<Buffer>) => {
    const chunks: Buffer[] = [];
    for await (const chunk of stream) chunks.push(chunk);
    return Buffer.concat(chunks).toString();
  };

  it('sends the bytes and only the headers it is given', async () => {
    let seen: IncomingMessage | undefined;
    let body = '';
    listener = async (req, res) => {
      seen = req;
      body = await text(req);
      res.end();
    };
    const data = Buffer.from('{"seed": 9007199254740993 }');
    const response = await client().request({
      url: `${url}/a?b=%2F`,
      method: 'post',
      headers: { 'X-One': 'Two' },
      data,
    });
    response.data.destroy();
    expect(body).to.equal('{"seed": 9007199254740993 }');
    expect(seen?.url).to.equal('/a?b=%2F');
    expect(seen?.rawHeaders.filter((_, i) => i % 2 === 0)).to.have.members([
      'host',
      'connection',
      'X-One',
      'content-length',
    ]);
  });

  it('runs request and response interceptors, as any axios instance does', async () => {
    let seen: IncomingMessage | undefined;
    listener = (req, res) => {
      seen = req;
      res.writeHead(201).end();
    };
    const hooked = client();
    hooked.interceptors.request.use((config) => {
      config.headers.set('x-hooked', 'yes');
      return config;
    });
    hooked.interceptors.response.use((response) => Object.assign(response, { status: response.status + 1 }));
    const response = await hooked.request({ url });
    response.data.destroy();
    expect(seen?.headers['x-hooked']).to.equal('yes');
    expect(response.status).to.equal(202);
    hooked.interceptors.request.use(() => Promise.reject(new Error('refused')));
    expect((await failure(hooked.request({ url }))).code).to.equal('unknown');
  });

  it('accepts response headers of any name and number, and spends little CPU time on them', async () => {
    const names = ['normalize', 'set', 'get', 'has', 'constructor', 'toString', '__proto__', '__proto__'];
    const lines = names.map((name) => `${name}: x\r\n`).join('');
    const many = Array.from({ length: 1_500 }, (_, i) => `x-${i}: y\r\n`).join('');
    listener = (req) => req.socket.end(`HTTP/1.1 200 OK\r\n${lines}${many}content-length: 2\r\n\r\nok`);
    const { headers, data } = await client().request({ url });
    expect(await text(data.toReadable())).to.equal('ok');
    expect(headers['x-1499']).to.equal('y');
    // axios' own handling of so many takes two seconds
    const { user } = process.cpuUsage();
    for (let i = 0; i < 20; i += 1) (await client().request({ url })).data.destroy();
    expect(process.cpuUsage().user - user).to.be.below(1_000_000);
  });

  it('returns a redirect as a response, and does not follow it', async () => {
    listener = (_req, res) => res.writeHead(302, { location: '/elsewhere', 'x-a': ['1', '2'] }).end('moved');
    const response = await client().request({ url });
    expect(response.status).to.equal(302);
    expect(response.headers['x-a']).to.deep.equal(['1', '2']);
    expect(await text(response.data.toReadable())).to.equal('moved');
  });

  it('does not decompress a body', async () => {
    listener = (_req, res) => res.writeHead(200, { 'content-encoding': 'gzip' }).end('not gzip at all');
    expect(await text((await client().request({ url })).data.toReadable())).to.equal('not gzip at all');
  });

  it('ignores proxies from the environment', async () => {
    process.env.HTTP_PROXY = 'http://127.0.0.1:9';
    try {
      listener = (_req, res) => res.end('direct');
      expect(await text((await client().request({ url })).data.toReadable())).to.equal('direct');
    } finally {
      delete process.env.HTTP_PROXY;
    }
  });

  it('holds the sender back while nobody reads', async () => {
    let written = 0;
    listener = async (_req, res) => {
      const chunk = Buffer.alloc(64 * 1024);
      while (!res.destroyed) {
        written += chunk.length;
        if (!res.write(chunk)) await new Promise((resolve) => res.once('drain', resolve));
      }
    };
    const response = await client().request({ url });
    let before = -1;
    while (written !== before) {
      before = written;
      // shows that nothing more is written
      await sleep(150);
    }
    const readable = response.data.toReadable();
    for await (const _ of readable) if (written > before + 1_000_000) break;
    expect(written).to.be.above(before + 1_000_000);
  });

  it('drops the connection when a body is destroyed', async () => {
    let closed: Promise<unknown> | undefined;
    listener = (_req, res: ServerResponse) => {
      closed = once(res, 'close');
      res.write('x');
    };
    (await client().request({ url })).data.destroy();
    expect(await closed).to.be.an('array');
  });

  it('opens no other connection for a call that was dropped in the middle of its body', async () => {
    let connections = 0;
    server.on('connection', () => {
      connections += 1;
    });
    let closed: Promise<unknown> | undefined;
    listener = (_req, res: ServerResponse) => {
      closed = once(res, 'close');
      res.write('x');
    };
    (await client().request({ url })).data.destroy();
    await closed;
    listener = (_req, res) => void res.end();
    // comes after any connection that was opened when the first one closed
    const other = createDispatcher();
    (await createHttpClient(other).request({ url })).data.destroy();
    await other.destroy();
    expect(connections).to.equal(2);
  });

  it('ends the call when its signal aborts before a response', async () => {
    let arrived = () => {};
    const arrival = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    let gone: Promise<unknown> | undefined;
    listener = (_req, res) => {
      gone = once(res, 'close');
      arrived();
    };
    const abort = new AbortController();
    const call = failure(client().request({ url, signal: abort.signal }));
    await arrival;
    abort.abort();
    expect((await call).code).to.equal('aborted');
    await gone;
  });

  it('ends the body when its signal aborts in the middle of it', async () => {
    listener = (_req, res) => void res.write('half');
    const abort = new AbortController();
    const response = await client().request({ url, signal: abort.signal });
    const rest = failure(text(response.data.toReadable()));
    abort.abort();
    expect((await rest).code).to.equal('aborted');
  });

  it('reports timeout when a deadline passes', async () => {
    const deadline = new AbortController();
    // before a request arrives, the connection is what takes too long
    listener = () => deadline.abort(new DOMException('The deadline has passed', 'TimeoutError'));
    expect((await failure(client().request({ url, signal: deadline.signal }))).code).to.equal('timeout');
  });

  it('refuses a call whose signal has aborted already', async () => {
    expect((await failure(client().request({ url, signal: AbortSignal.abort() }))).code).to.equal('aborted');
  });

  it('reports connect_refused, tls_failed and invalid_response', async () => {
    listener = (req) => req.socket.end('NOT HTTP\r\n\r\n');
    expect((await failure(client().request({ url }))).code).to.equal('invalid_response');
    expect((await failure(client().request({ url: url.replace('http:', 'https:') }))).code).to.equal('tls_failed');
    expect((await failure(client().request({ url: nobody }))).code).to.equal('connect_refused');
  });

  it('tells a reset on a socket that was used from one on a fresh socket', async () => {
    listener = (req) => req.socket.resetAndDestroy();
    const fresh = await failure(client().request({ url }));
    expect([fresh.code, fresh.reusedSocket]).to.deep.equal(['reset', false]);

    listener = (_req, res) => res.end('ok');
    await text((await client().request({ url })).data.toReadable());
    // until the connection is idle again
    await sleep(20);
    listener = (req) => req.socket.resetAndDestroy();
    const reused = await failure(client().request({ url }));
    expect([reused.code, reused.reusedSocket]).to.deep.equal(['reset', true]);
  });

  it('reports reset when the sender drops the connection in the middle of a body', async () => {
    listener = (_req, res) => {
      res.write('half');
      setTimeout(() => res.destroy(), 10);
    };
    const response = await client().request({ url });
    expect((await failure(text(response.data.toReadable()))).code).to.equal('reset');
  });

  it('never shows the Authorization header in an error', async () => {
    listener = (req) => req.socket.destroy();
    const headers = { authorization: 'Bearer canary-secret' };
    for (const signal of [undefined, AbortSignal.abort(), AbortSignal.timeout(5_000)]) {
      const error = await failure(client().request({ url, method: 'post', headers, ...(signal && { signal }) }));
      expect(inspect(error, { depth: 20, showHidden: true })).not.to.include('canary-secret');
      expect(JSON.stringify(error)).not.to.include('canary-secret');
    }
  });
});

const table: [unknown, string][] = [
  [{ code: 'ENOTFOUND' }, 'dns_failed'],
  [{ code: 'EAI_AGAIN' }, 'dns_failed'],
  [{ code: 'ECONNREFUSED' }, 'connect_refused'],
  [{ code: 'EHOSTUNREACH' }, 'connect_failed'],
  [{ code: 'UND_ERR_CONNECT_TIMEOUT' }, 'connect_timeout'],
  [{ code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }, 'tls_failed'],
  [{ code: 'CERT_HAS_EXPIRED' }, 'tls_failed'],
  [{ code: 'ERR_TLS_CERT_ALTNAME_INVALID' }, 'tls_failed'],
  [{ code: 'ERR_SSL_WRONG_VERSION_NUMBER' }, 'tls_failed'],
  [{ code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' }, 'tls_failed'],
  [{ code: 'ECONNRESET' }, 'reset'],
  [{ code: 'UND_ERR_SOCKET' }, 'reset'],
  [{ name: 'HTTPParserError' }, 'invalid_response'],
  [{ name: 'HTTPParserError', message: 'Response does not match (Invalid EOF state)' }, 'reset'],
  [{ code: 'UND_ERR_SOCKET', message: 'other side closed' }, 'reset'],
  [{ code: 'UND_ERR_SOCKET', message: 'bad response' }, 'invalid_response'],
  [{ code: 'ECANCELLED' }, 'dns_failed'],
  [{ code: 'ETIMEOUT' }, 'dns_failed'],
  [{ code: 'ETIMEDOUT' }, 'connect_timeout'],
  [new DOMException('', 'TimeoutError'), 'timeout'],
  [new DOMException('', 'AbortError'), 'aborted'],
  [new AggregateError([{ code: 'ECONNREFUSED' }, { code: 'ENETUNREACH' }]), 'connect_refused'],
  [{ code: 'SOMETHING_NEW' }, 'unknown'],
  ['a string', 'unknown'],
  [undefined, 'unknown'],
];

describe('the classification of failed calls', () => {
  for (const [error, code] of table) {
    const shown = (error as { code?: string })?.code ?? (error as Error)?.name ?? String(error);
    it(`reports ${shown} as ${code}`, () => {
      expect(classify(error).code).to.equal(code);
    });
  }

  it('tells a reset on a reused socket from one on a fresh socket', () => {
    expect(classify({ code: 'ECONNRESET', reusedSocket: true }).reusedSocket).to.equal(true);
    expect(classify({ code: 'UND_ERR_SOCKET', socket: { bytesRead: 100 } }).reusedSocket).to.equal(true);
    expect(classify({ code: 'UND_ERR_SOCKET', socket: { bytesRead: 0 } }).reusedSocket).to.equal(false);
    expect(classify({ code: 'ECONNRESET' }).reusedSocket).to.equal(false);
  });

  it('returns an error unchanged that is already classified', () => {
    const error = classify({ code: 'ECONNRESET' });
    expect(classify(error)).to.equal(error);
  });
});
