import { createServer, type Server, type Socket } from 'node:net';
import { expect } from 'chai';
import type { UpstreamTimeouts } from '../../src/index.ts';
import { HeldClock } from '../support/clock.ts';
import { listenOn } from '../support/listen.ts';
import { callerKey, type ModelServer, startModelServer } from '../support/model-server.ts';
import { untilRead } from '../support/until-read.ts';
import { chunks, hang, json, type Script, ScriptedUpstream, stall } from '../support/upstream.ts';

const jsonHeaders = { 'content-type': 'application/json' };
/** Longer limits pass when a test says so, and end no call before. Milliseconds. */
const longest = 1_500;

describe('the time limit of an upstream', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer | undefined;
  let clock: HeldClock;

  beforeEach(async () => {
    upstream = await ScriptedUpstream.start();
    clock = new HeldClock(longest);
  });

  afterEach(async () => {
    clock.release();
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

  /** Answers the parts one by one, each when the one before has been read and so many milliseconds have passed. */
  function slowly(parts: readonly string[], headers: Record<string, string>, gap: number): Script {
    return async (res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream', ...headers });
      for (const part of parts) {
        res.write(part);
        await untilRead();
        clock.turn(gap);
      }
      res.end();
    };
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
      // less than three times undici's own limit
      expect(took).to.be.within(300, 25_000);
    } finally {
      for (const socket of sockets) socket.destroy();
      mute.close();
    }
  });

  it('for the first byte counts from the moment the request is sent', async () => {
    const { status, text, took } = await ask({ firstByte: 500 }, hang);
    expect([status, JSON.parse(text).error.code]).to.deep.equal([504, 'upstream_timeout']);
    expect(took).to.be.at.least(499);
    expect(await (await upstream.received(1)).closed).to.equal(false);
    expect(upstream.requests).to.have.lengthOf(1);
  });

  it('for the first byte gets back what the process could not use of it, being stopped', async () => {
    const { status, text } = await ask({ firstByte: 50_000 }, async (res) => {
      clock.skip(90_000);
      // the gateway looks whether there is an answer, and there is none
      await untilRead();
      clock.turn(35_000);
      await untilRead();
      res.writeHead(200, jsonHeaders).end('{"choices":[1]}');
    });
    expect([status, text]).to.deep.equal([200, '{"choices":[1]}']);
  });

  it('for the first byte ends with the head, however long the body takes', async () => {
    const parts = ['{"choices"', ':', '[1]}'];
    expect((await ask({ firstByte: 50_000 }, slowly(parts, jsonHeaders, 30_000))).text).to.equal('{"choices":[1]}');
  });

  for (const [what, headers, stream] of [
    ['a stream', {}, true],
    ['a body', jsonHeaders, false],
  ] as const) {
    const parts = stream
      ? [...Array(12).fill('data: {"choices":[1]}\n\n'), 'data: [DONE]\n\n']
      : ['{"choices":', ...Array(10).fill(' '), '[1]}'];

    it(`between chunks starts anew with every chunk of ${what}`, async () => {
      const { status, text } = await ask({ betweenChunks: 50_000 }, slowly(parts, headers, 30_000), stream);
      expect([status, text]).to.deep.equal([200, parts.join('')]);
    });

    it(`between chunks ends ${what} that stalls`, async () => {
      const { text, took } = await ask({ betweenChunks: 100 }, stall(parts[0], headers), stream);
      expect(text).to.include('upstream_timeout');
      expect(took).to.be.at.least(99);
    });
  }

  it('between chunks does not end a stream whose chunks came while the process was busy', async () => {
    const busy: Script = async (res) => {
      res.writeHead(200).write('data: {"choices":[1]}\n\n');
      await untilRead();
      res.write('data: {"a":2}\n\n');
      clock.skip(60_000);
      res.end('data: [DONE]\n\n');
    };
    const { text } = await ask({ betweenChunks: 50_000 }, busy, true);
    expect(text).to.equal('data: {"choices":[1]}\n\ndata: {"a":2}\n\ndata: [DONE]\n\n');
  });

  it('for the whole call ends a stream that does not stop', async () => {
    const endless = Array(1_000).fill('data: {"choices":[1]}\n\n');
    const { text, took } = await ask({ total: 1_000 }, chunks(endless, {}, 20), true);
    expect(text)
      .to.match(/^data: \{"choices":\[1\]\}\n\n/)
      .and.to.match(/upstream_timeout[^\n]*\n\n$/);
    expect(took).to.be.at.least(999);
  });

  it('for the whole call ends the wait for a retry', async () => {
    const { status, text, took } = await ask({ total: 200 }, json(429, {}, { 'retry-after-ms': '1900' }));
    expect([status, JSON.parse(text).error.code]).to.deep.equal([504, 'upstream_timeout']);
    expect(took).to.be.at.least(199);
  });
});
