import { connect } from 'node:net';
import { expect } from 'chai';
import fc from 'fast-check';
import { type LiveGateway, startGateway } from '../../support/gateway.ts';
import { heldMemory } from '../../support/processes/held-memory.ts';
import { json, ScriptedUpstream, stall } from '../../support/upstream.ts';
import { type MeasuredEdge, runWithinBounds, startMeasuredEdge } from '../bodies/bounds.ts';

interface HostileRequest {
  readonly method: string;
  readonly target: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string;
}

const latin1 = fc.uint8Array({ maxLength: 20 }).map((bytes) =>
  Buffer.from(bytes)
    .toString('latin1')
    .replaceAll(/[\r\n]/g, ''),
);

const mebibyte = 2 ** 20;
const methods = ['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT', 'get', 'FOO', 'PRI'];
const targets = [
  ...['/v1/webhooks', '/v1/models', '/v1/chat/completions', '/v1/images/edits', '/v1/api_keys', '/v1/usage', '/v1'],
  ...['/v1/models/%zz', '/v1/models/%ff', '/v1/models/a%2f..%2fb', '/v1/webhooks/%00', '/v1/webhooks/wh_%e2%82'],
  ...[
    '/v1/webhooks?limit=%',
    '/v1/webhooks?limit=1&limit=2',
    '/v1/deliveries?since=%f0%9f',
    '/v1/webhooks?__proto__=1',
  ],
  ...[
    '//v1/models',
    '/v1/../v1/models',
    '/v1/models#x',
    '/dashboard/session',
    '/dashboard/v1/webhooks',
    '/dashboard/%',
  ],
  ...['http://h/v1/models', 'http://h', 'ftp://h/v1/models', 'http://[::1/v1/models', 'h:443', '*', '?', '%', '/\xff'],
  `/v1/models/${'a/'.repeat(2_000)}`,
];
const pool: readonly (readonly [name: string, values: readonly string[]])[] = [
  ['authorization', ['Bearer', 'Bearer  x', 'bearer \xff', 'Basic dTpw', 'Bearer emg_x emg_y', 'Bearer emg_\t', '']],
  ['host', ['', 'a b', 'h:99999', '[::1]', 'user@h', 'h, i', '\xfc.example']],
  ['content-length', ['0', '-1', '+2', '2, 2', '0x2', '2.0', '99999999999999999999', '2', ' 3', '1']],
  ['transfer-encoding', ['chunked', 'chunked, chunked', 'identity', 'gzip, chunked', 'xchunked', 'chunked;a=b', ',']],
  [
    'content-type',
    [
      'application/json; charset=utf-16',
      'application/json; charset="',
      'application/json;;;',
      'application/JSON ; a=b; a=c',
      'multipart/form-data',
      'multipart/form-data; boundary=',
      'multipart/form-data; boundary="a\\"b"',
      'a/b/c',
      '/',
    ],
  ],
  ['content-encoding', ['gzip', 'br, gzip', 'identity', 'x', 'zstd', ',']],
  ['accept-encoding', ['gzip;q=2', '*;q=0', ',,,', 'gzip;q=\xff', 'identity;q=0']],
  ['accept', ['text/event-stream', '*/*;q=', ';']],
  ['expect', ['100-continue', '100-Continue, x', 'x', '']],
  ['connection', ['close', 'keep-alive', 'upgrade', 'close, keep-alive, x', 'transfer-encoding', ',']],
  ['upgrade', ['websocket', 'h2c', 'TLS/1.3']],
  ['x-request-id', ['a b', '\xff', 'x'.repeat(300), '']],
  ['origin', ['null', 'http://[', 'https://h']],
  ['sec-fetch-site', ['same-origin', 'cross-site', '\xff']],
  ['cookie', ['a=b; ;=; \xff', ';'.repeat(500)]],
  ['idempotency-key', ['', 'a\tb', '\xff'.repeat(300)]],
  ['user-agent', ['\xff', '']],
];
const oddHeader = fc.oneof(
  {
    arbitrary: fc
      .constantFrom(...pool)
      .chain(([name, values]) => fc.tuple(fc.constant(name), fc.constantFrom(...values))),
    weight: 8,
  },
  { arbitrary: fc.tuple(fc.constantFrom(...pool.map(([name]) => name), 'x-odd', 'a b', ''), latin1), weight: 2 },
);
const request: fc.Arbitrary<HostileRequest> = fc.record({
  method: fc.constantFrom(...methods),
  target: fc.oneof(
    { arbitrary: fc.constantFrom(...targets), weight: 9 },
    latin1.map((text) => `/v1/models/${text}`),
  ),
  headers: fc.oneof(
    { arbitrary: fc.array(oddHeader, { maxLength: 6 }), weight: 20 },
    fc
      .constantFrom(100, 1_000, 3_000)
      .map((count) => Array.from({ length: count }, (_, i) => [`x-${i}`, 'v'] as const)),
  ),
  body: fc.constantFrom('', '{}', '{"model":"m","messages":[]}', '2\r\n{}\r\n0\r\n\r\n', 'zz\r\n', '[[[[', '\0\xff'),
});

/** The answers in what came back, to requests of this method; throws where they are not well-formed to the last byte. */
function answersIn(text: string, method: string): number[] {
  const statuses: number[] = [];
  let rest = text;
  while (rest !== '') {
    const end = rest.indexOf('\r\n\r\n');
    const [line = '', ...fields] = rest.slice(0, end).split('\r\n');
    const status = Number(/^HTTP\/1\.1 ([1-5]\d\d)( [\x20-\x7e]*)?$/.exec(line)?.[1]);
    expect(status, `a status line: ${text}`).to.be.a('number').and.not.NaN;
    for (const field of fields) expect(field, text).to.match(/^[\w-]+: ?[\x20-\x7e]*$/);
    rest = rest.slice(end + 4);
    if (status < 200) continue;
    statuses.push(status);
    const header = (name: string) =>
      fields
        .find((field) => field.toLowerCase().startsWith(`${name}:`))
        ?.slice(name.length + 1)
        .trim();
    const length = header('content-length');
    // a head that is no HTTP, or too long, is refused before anybody knows its method
    const isUnknown = header('connection') === 'close' && /"(malformed_request|headers_too_large)"/.test(rest);
    const isToHead = method === 'HEAD' && !isUnknown;
    const hasBody = !isToHead && status !== 204 && status !== 304;
    let body = rest;
    if (!hasBody) body = '';
    else if (length !== undefined) body = rest.slice(0, Number(length));
    else if (header('transfer-encoding') === 'chunked') body = rest.slice(0, rest.indexOf('0\r\n\r\n') + 5);
    if (hasBody && length !== undefined) {
      expect(body, 'a whole body').to.have.length(Number(length));
      if (/json/.test(header('content-type') ?? '')) JSON.parse(body);
    }
    rest = rest.slice(body.length);
  }
  return statuses;
}

describe('a request of a hostile client', function () {
  this.timeout(180_000);
  let upstream: ScriptedUpstream;
  let live: LiveGateway;
  let port: number;
  /** The same requests go to it: beside the clients in this process nothing could be told of memory and the event loop. */
  let edge: MeasuredEdge;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    edge = await startMeasuredEdge(upstream.baseUrl);
    live = await startGateway({
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
      dashboard: { path: '/dashboard', authenticate: () => ({ userId: 'usr_2' }) },
    });
    port = Number(new URL(live.url).port);
  });
  after(async () => {
    await live?.close();
    await edge?.close();
    await upstream?.close();
  });

  function bytesOf({ method, target, headers, body }: HostileRequest): Buffer {
    const given = new Set(headers.map(([name]) => name));
    const usual: [string, string][] = [
      ['host', 'h'],
      ['authorization', `Bearer ${live.key}`],
      ['content-type', 'application/json'],
      ['content-length', String(body.length)],
    ];
    const framed = given.has('transfer-encoding') ? usual.slice(0, 3) : usual;
    const lines = [...framed.filter(([name]) => !given.has(name)), ...headers].map(
      ([name, value]) => `${name}: ${value}`,
    );
    return Buffer.from(`${method} ${target} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${body}`, 'latin1');
  }

  /** Sends it; when nothing more comes for a moment the client says that it has sent all, and waits for the end. */
  function send(bytes: Buffer, to: number): Promise<string> {
    return new Promise((resolve, reject) => {
      const socket = connect(to, '127.0.0.1');
      let text = '';
      const late = setTimeout(() => reject(new Error(`neither answered nor closed: ${text}`)), 10_000);
      const quiet = setTimeout(() => socket.end(), 40);
      socket.on('data', (chunk) => {
        text += chunk.toString('latin1');
        quiet.refresh();
      });
      socket.on('error', () => {});
      socket.on('close', () => {
        clearTimeout(late);
        clearTimeout(quiet);
        resolve(text);
      });
      socket.write(bytes);
    });
  }

  it('gets a well-formed answer below 500 or a closed connection, and does not disturb other requests', async () => {
    const first = 'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n';
    const last = 'data: [DONE]\n\n';
    let finish = (): void => {};
    upstream.script = (res, made) => {
      finish = () => void res.end(last);
      return stall(first)(res, made);
    };
    const chat = { model: 'm', messages: [{ role: 'user', content: 'Hello' }], stream: true };
    const streaming = await fetch(`${live.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${live.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(chat),
    });
    upstream.script = json(200, { object: 'list', data: [{ id: 'm', object: 'model' }] });

    const held = await heldMemory();
    let answered = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(request, { minLength: 10, maxLength: 10 }), async (requests) => {
        const sent = requests.map(bytesOf);
        const sendAll = (to: number) => () => Promise.all(sent.map((bytes) => send(bytes, to)));
        const sum = sent.reduce((total, { length }) => total + length, 0);
        const begun = process.cpuUsage();
        const [texts, atEdge] = await Promise.all([sendAll(port)(), runWithinBounds(edge, sendAll(edge.port), sum)]);
        const { user, system } = process.cpuUsage(begun);
        // ten of them, with the clients that send them, may take what one may at the most
        expect((user + system) / 1_000, 'CPU time in ms').to.be.at.most(500);
        for (const [i, text] of [...texts, ...atEdge].entries()) {
          const statuses = answersIn(text, requests[i % requests.length]?.method ?? '');
          for (const status of statuses) expect(status, text).to.be.below(500);
          answered += statuses.length > 0 ? 1 : 0;
        }
      }),
      { numRuns: 300 },
    );
    expect(answered).to.be.above(3_000);
    expect(((await heldMemory()) - held) / mebibyte, 'MiB that stay').to.be.at.most(64);
    expect((await live.call('GET', '/v1/webhooks')).status).to.equal(200);
    finish();
    expect(await streaming.text()).to.equal(first + last);
  });
});
