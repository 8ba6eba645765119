import { createServer, type Server } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { hardenServer } from '../../../src/index.ts';
import { listenOn } from '../../support/listen.ts';
import { createFakeEdge, fakeOperations, goodKey } from '../fake-edge.ts';
import { connectRaw, head } from '../raw-client.ts';

const authorization = `Bearer ${goodKey}`;
const json = { authorization, 'content-type': 'application/json' };

/** Milliseconds until `work` is done. */
async function timed(work: Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work;
  return performance.now() - began;
}

describe('a hardened server', () => {
  let server: Server;
  let port: number;
  const short = { headersTimeout: 400, requestTimeout: 600, connectionsCheckingInterval: 20 };

  async function start(properties: Partial<Server> = short): Promise<void> {
    const edge = await createFakeEdge({
      operations: fakeOperations({
        createChatCompletion: {
          async relay(_call, res) {
            for (let i = 0; i < 8; i += 1) {
              res.write(`data: ${i}\n\n`);
              // the answer is slow on purpose
              await sleep(100);
            }
            res.end('data: [DONE]\n\n');
          },
        },
      }),
    });
    server = createServer((req, res) => edge(req, res, () => res.writeHead(404).end(Object.keys(req.headers).join())));
    Object.assign(hardenServer(server), properties);
    port = await listenOn(server);
  }

  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  it('closes a connection that sends nothing', async () => {
    await start();
    const client = connectRaw(port);
    expect(await timed(client.ended())).to.be.within(350, 5_000);
  });

  it('closes a connection that sends headers all the time and never ends them', async () => {
    await start();
    const client = connectRaw(port);
    client.write('GET /v1/models HTTP/1.1\r\nhost: localhost\r\n');
    const dripping = setInterval(() => client.write('x-drip: 1\r\n'), 20);
    const took = await timed(client.ended());
    clearInterval(dripping);
    expect(took).to.be.within(350, 5_000);
    expect(await client.ended()).to.match(/^HTTP\/1\.1 408 /);
  });

  it('closes a connection that sends its body too slowly', async () => {
    await start();
    const client = connectRaw(port);
    client.write(head('POST', '/v1/webhooks', { ...json, 'content-length': '100000' }), '{"url":"');
    const dripping = setInterval(() => client.write('x'), 20);
    const took = await timed(client.ended());
    clearInterval(dripping);
    expect(took).to.be.within(550, 5_000);
  });

  it('closes a connection whose second request does not end, after a fast first one', async () => {
    await start();
    const client = connectRaw(port);
    client.write(head('GET', '/v1/webhooks', { authorization }));
    await client.received(/200 OK/);
    client.write('GET /v1/');
    expect(await timed(client.ended())).to.be.within(350, 5_000);
  });

  it('lets an answer take longer than a request may', async () => {
    await start();
    const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }] });
    const client = connectRaw(port);
    const length = String(body.length);
    client.write(head('POST', '/v1/chat/completions', { ...json, 'content-length': length }), body);
    expect(await timed(client.received(/\[DONE\]/))).to.be.above(700);
    client.socket.destroy();
  });

  it('ignores headers above maxHeadersCount, or refuses the request, as newer versions of Node do', async () => {
    await start({ maxHeadersCount: 5 });
    const many = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`x-${i}`, '1']));
    const client = connectRaw(port);
    client.write(head('GET', '/', many));
    const text = await client.received(/host,x-[^\r]*\r\n|headers_too_large/);
    const [, names = ''] = /\r\n(host[^\r]*)\r\n/.exec(text) ?? [];
    client.socket.destroy();
    if (text.startsWith('HTTP/1.1 431 ')) expect(names).to.equal('');
    else expect(names.split(',')).to.have.length(5);
  });

  it('closes connections above maxConnections', async () => {
    await start({ ...short, maxConnections: 3 });
    const clients = Array.from({ length: 6 }, () => connectRaw(port));
    const answers = await Promise.all(clients.map((client) => client.ended()));
    // those that were accepted ran into the time limit, the others were closed without a word
    expect(answers.filter((text) => text.startsWith('HTTP/1.1 408 '))).to.have.length(3);
    expect(answers.filter((text) => text === '')).to.have.length(3);
  });

  it('keeps an idle connection for longer than the head of a request may take', async () => {
    await start();
    const client = connectRaw(port);
    client.write(head('GET', '/v1/models', { authorization }));
    await client.received(/HTTP\/1\.1 200/);
    // idle for longer than any request may take
    await sleep(2 * short.requestTimeout);
    client.write(head('GET', '/v1/models', { authorization, connection: 'close' }));
    expect((await client.ended()).match(/HTTP\/1\.1 \d+/g)).to.deep.equal(['HTTP/1.1 200', 'HTTP/1.1 200']);
  });

  it('has the default values that are documented', () => {
    server = hardenServer(createServer());
    expect(server).to.deep.include({
      headersTimeout: 10_000,
      requestTimeout: 130_000,
      connectionsCheckingInterval: 2_000,
      keepAliveTimeout: 65_000,
      maxHeadersCount: 100,
      maxConnections: 10_000,
    });
  });

  it('refuses what once were options, and says how they are set now', () => {
    server = createServer();
    const untyped = hardenServer as (...args: unknown[]) => unknown;
    expect(() => untyped(server, { keepAliveTimeout: 1 }))
      .to.throw('keepAliveTimeout: is no option any more: set it on the server')
      .that.includes({ code: 'invalid_options', param: 'keepAliveTimeout' });
  });

  it('cannot be made from a server that already listens', async () => {
    await start();
    expect(() => hardenServer(server))
      .to.throw()
      .that.includes({ code: 'invalid_options', param: 'server' });
  });
});
