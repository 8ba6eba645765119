import { createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { UpstreamTimeouts } from '../../src/index.ts';
import { startReceiverThread } from '../deliveries/send/receiver-thread.ts';
import { listenOn } from '../support/listen.ts';
import { callerKey, type ModelServer, startModelServer } from '../support/model-server.ts';
import { until } from '../support/until.ts';
import { chunks, hang, json, type Script, ScriptedUpstream, stall } from '../support/upstream.ts';

const jsonHeaders = { 'content-type': 'application/json' };

describe('the time limit of an upstream', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer | undefined;

  beforeEach(async () => {
    upstream = await ScriptedUpstream.start();
  });

  afterEach(async () => {
    await server?.close();
    server = undefined;
    await upstream.close();
  });

  /** One call under one limit, the others as they are by default. */
  async function ask(timeouts: UpstreamTimeouts, script: Script, stream = false, baseUrl = upstream.baseUrl) {
    upstream.script = script;
    server = await startModelServer({ upstreams: [{ name: 'one', baseUrl, timeouts }] });
    const started = performance.now();
    const response = await fetch(`${server.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${callerKey}`, ...jsonHeaders },
      body: JSON.stringify({ model: 'm', stream, messages: [{ role: 'user', content: 'Hi' }] }),
    });
    const text = await response.text();
    return { status: response.status, text, took: performance.now() - started };
  }

  it('for the connection includes the TLS handshake, and the connection is tried again', async () => {
    const sockets = new Set<Socket>();
    const mute: Server = createServer((socket) => sockets.add(socket.on('error', () => {})));
    const port = await listenOn(mute);
    try {
      const baseUrl = `https://127.0.0.1:${port}/v1`;
      const { status, text, took } = await ask({ connect: 100 }, hang, false, baseUrl);
      expect([status, JSON.parse(text).error.code]).to.deep.equal([504, 'upstream_timeout']);
      expect(sockets.size).to.equal(3);
      expect(took).to.be.within(300, 8_000);
    } finally {
      for (const socket of sockets) socket.destroy();
      mute.close();
    }
  });

  it('for the first byte counts from the moment the request is sent', async () => {
    const { status, text, took } = await ask({ firstByte: 500 }, hang);
    expect([status, JSON.parse(text).error.code]).to.deep.equal([504, 'upstream_timeout']);
    expect(took).to.be.within(499, 8_000);
    expect(await (await upstream.received(1)).closed).to.equal(false);
    expect(upstream.requests).to.have.lengthOf(1);
  });

  it('for the first byte gets back what the process could not use of it, being stopped', async () => {
    const thread = await startReceiverThread(2_900, '{"choices":[1]}', 'application/json');
    try {
      const answer = ask({ firstByte: 1_500 }, hang, false, new URL('/v1', thread.url).href);
      await until(async () => (await thread.requests()) === 1);
      thread.holdLoop(2_500);
      const { status, text } = await answer;
      expect([status, text]).to.deep.equal([200, '{"choices":[1]}']);
    } finally {
      await thread.stop();
    }
  });

  it('for the first byte ends with the head, however long the body takes', async () => {
    const parts = ['{"choices"', ':', '[1]}'];
    expect((await ask({ firstByte: 1_000 }, chunks(parts, jsonHeaders, 550))).text).to.equal('{"choices":[1]}');
  });

  for (const [what, headers, stream] of [
    ['a stream', {}, true],
    ['a body', jsonHeaders, false],
  ] as const) {
    const parts = stream
      ? [...Array(12).fill('data: {"choices":[1]}\n\n'), 'data: [DONE]\n\n']
      : ['{"choices":', ...Array(10).fill(' '), '[1]}'];

    it(`between chunks starts anew with every chunk of ${what}`, async () => {
      const { status, text } = await ask({ betweenChunks: 800 }, chunks(parts, headers, 100), stream);
      expect([status, text]).to.deep.equal([200, parts.join('')]);
    });

    it(`between chunks ends ${what} that stalls`, async () => {
      const { text, took } = await ask({ betweenChunks: 100 }, stall(parts[0], headers), stream);
      expect(text).to.include('upstream_timeout');
      expect(took).to.be.within(99, 8_000);
    });
  }

  it('between chunks does not end a stream whose chunks came while the process was busy', async () => {
    const busy: Script = async (res) => {
      res.writeHead(200).write('data: {"choices":[1]}\n\n');
      // the upstream answers slowly on purpose
      await sleep(50);
      res.write('data: {"a":2}\n\n');
      const end = performance.now() + 400;
      while (performance.now() < end);
      res.end('data: [DONE]\n\n');
    };
    const { text } = await ask({ betweenChunks: 200 }, busy, true);
    expect(text).to.equal('data: {"choices":[1]}\n\ndata: {"a":2}\n\ndata: [DONE]\n\n');
  });

  it('for the whole call ends a stream that does not stop', async () => {
    const endless = Array(1_000).fill('data: {"choices":[1]}\n\n');
    const { text, took } = await ask({ total: 1_000 }, chunks(endless, {}, 20), true);
    expect(text)
      .to.match(/^data: \{"choices":\[1\]\}\n\n/)
      .and.to.match(/upstream_timeout[^\n]*\n\n$/);
    expect(took).to.be.within(999, 8_000);
  });

  it('for the whole call ends the wait for a retry', async () => {
    const { status, text, took } = await ask({ total: 200 }, json(429, {}, { 'retry-after-ms': '1900' }));
    expect([status, JSON.parse(text).error.code]).to.deep.equal([504, 'upstream_timeout']);
    expect(took).to.be.within(199, 1_800);
  });
});
