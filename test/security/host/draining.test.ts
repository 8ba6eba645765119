import { once } from 'node:events';
import { Agent, get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import express from 'express';
import mongoose, { type Connection } from 'mongoose';
import { hardenServer, type ModelGateway, type ModelGatewayOptions } from '../../../src/index.ts';
import { connectRaw, head } from '../../http/raw-client.ts';
import { createGateway } from '../../support/gateway.ts';
import { listen } from '../../support/listen.ts';
import { freshUri } from '../../support/mongo.ts';
import { hang, type Script, ScriptedUpstream, stall } from '../../support/upstream.ts';

const first = 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n';
const rest =
  'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}\n\ndata: [DONE]\n\n';

describe('a gateway that closes', () => {
  let upstream: ScriptedUpstream;
  let connection: Connection;
  let gateway: ModelGateway;
  let host: Awaited<ReturnType<typeof listen>>;

  before(async () => {
    upstream = await ScriptedUpstream.start();
  });
  after(() => upstream.close());
  afterEach(async () => {
    await host.close();
    await gateway.close();
    await connection.dropDatabase();
    await connection.close();
  });

  async function start(options: Partial<ModelGatewayOptions> = {}): Promise<void> {
    connection = await mongoose.createConnection(freshUri()).asPromise();
    gateway = await createGateway({
      mongo: connection,
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }],
      authenticate: () => ({ userId: 'usr_1' }),
      ...options,
    });
    host = await listen(express().use(gateway.router), (server) => hardenServer(server));
  }

  function chat(stream = true): Promise<Response> {
    return fetch(`${host.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hello' }], stream }),
    });
  }

  const recorded = () => connection.collection('gateway_usage').find().toArray();

  it('lets a stream finish, refuses other requests meanwhile, and records the usage of the stream', async () => {
    await start();
    let finish = (): void => {};
    const script: Script = async (res, request) => {
      await stall(first)(res, request);
      finish = () => void res.end(rest);
    };
    upstream.script = script;
    const streaming = await chat();
    const closing = gateway.close();
    let closed = false;
    void closing.then(() => {
      closed = true;
    });

    for (const path of ['/v1/models', '/v1/webhooks', '/v1/chat/completions']) {
      const refused = await fetch(host.url + path);
      expect([refused.status, refused.headers.get('retry-after'), refused.headers.get('connection')]).to.deep.equal([
        503,
        '1',
        'close',
      ]);
      expect(await refused.json()).to.deep.include({
        error: {
          message: 'The gateway is shutting down; send the request again',
          type: 'server_error',
          param: null,
          code: 'shutting_down',
        },
      });
    }
    // shows that closing waits
    await sleep(200);
    expect(closed).to.equal(false);
    finish();
    expect(await streaming.text()).to.equal(first + rest.slice(rest.indexOf('data: [DONE]')));
    const ended = performance.now();
    await closing;
    expect(performance.now() - ended).to.be.below(5_000);
    const [record, ...others] = await recorded();
    expect(others).to.have.length(0);
    expect(record).to.include({ ending: 'complete', inputTokens: 3, outputTokens: 4, estimated: false });
  });

  it('waits for an answer that has not begun, and closes the connection with it', async () => {
    await start();
    let finish = (): void => {};
    upstream.script = (res) => {
      finish = () => void res.writeHead(200, { 'content-type': 'application/json' }).end('{"choices":[{}]}');
    };
    const calls = upstream.requests.length;
    const answering = chat(false);
    await upstream.received(calls + 1);
    const closing = gateway.close();
    finish();
    const answer = await answering;
    expect([answer.status, answer.headers.get('connection')]).to.deep.equal([200, 'close']);
    await closing;
  });

  it('ends calls that take longer than drainTimeout: a stream with an error event, one without an answer with 503', async () => {
    await start({ drainTimeout: 300 });
    upstream.script = stall(first);
    const streaming = await chat();
    upstream.script = hang;
    const calls = upstream.requests.length;
    const waiting = chat(false);
    await upstream.received(calls + 1);
    const began = performance.now();
    await gateway.close();
    expect(performance.now() - began)
      .to.be.at.least(299)
      .and.below(10_000);
    const text = await streaming.text();
    expect(text)
      .to.match(/"code":"shutting_down"\}\}\n\n$/)
      .and.not.include('[DONE]');
    const refused = await waiting;
    expect([refused.status, refused.headers.get('retry-after'), refused.headers.get('connection')]).to.deep.equal([
      503,
      '1',
      'close',
    ]);
    expect((await recorded()).map(({ ending }) => ending)).to.deep.equal(['upstream_failed']);
  });

  for (const [what, own, begin] of [
    ['a short upload that stalls', { 'content-length': '1000' }, '{"model":'],
    ['a long upload that stalls', { 'content-length': '5000000' }, '{"model":'],
    ['a chunked upload that stalls', { 'transfer-encoding': 'chunked' }, '5\r\n{"mod\r\n'],
    ['an upload that was asked for', { 'content-length': '1000', expect: '100-continue' }, ''],
  ] as const) {
    it(`answers ${what} with 503 when drainTimeout ends`, async () => {
      await start({ drainTimeout: 300 });
      const client = connectRaw(Number(new URL(host.url).port));
      const reading = once(host.server, 'expect' in own ? 'checkContinue' : 'request');
      client.write(head('POST', '/v1/chat/completions', { 'content-type': 'application/json', ...own }), begin);
      await ('expect' in own ? client.received(/100 Continue/) : reading);
      await gateway.close();
      const answer = await client.received(/"code":"shutting_down"/);
      expect(answer).to.match(/^(HTTP\/1\.1 100 Continue\r\n\r\n)?HTTP\/1\.1 503 /);
      expect(answer.toLowerCase()).to.include('\r\nconnection: close\r\n').and.include('\r\nretry-after: 1\r\n');
      client.socket.destroy();
    });
  }

  it('does not wait for idle connections, nor for clients that have disconnected', async () => {
    await start();
    const agent = new Agent({ keepAlive: true });
    get(`${host.url}/v1/webhooks`, { agent }, (res) => res.resume());
    const [socket] = await once(agent, 'free');
    upstream.script = stall(first);
    const leaving = new AbortController();
    const calls = upstream.requests.length;
    const left = fetch(`${host.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"model":"m","messages":[{"role":"user","content":"a"}],"stream":true}',
      signal: leaving.signal,
    });
    await upstream.received(calls + 1);
    await left;
    leaving.abort();
    const began = performance.now();
    await gateway.close();
    expect(performance.now() - began).to.be.below(10_000);
    expect(socket.destroyed).to.equal(false);
    agent.destroy();
  });
});
