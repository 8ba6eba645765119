import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect } from 'chai';
import { callerKey, type ModelServer, startModelServer } from '../support/model-server.ts';
import { ScriptedUpstream, stall } from '../support/upstream.ts';

const streams = 1_000;
const atOnce = 100;

function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
}

describe('a thousand streams whose clients leave', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    upstream.script = stall('data: {"choices":[{"delta":{"content":"a"}}]}\n\n');
    server = await startModelServer({ upstreams: [{ name: 'one', baseUrl: upstream.baseUrl }] });
  });

  after(async () => {
    await server.close();
    await upstream.close();
  });

  const body = '{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"}]}';
  const request =
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${callerKey}\r\n` +
    `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;

  /** Opens a stream and, when its first event has come, leaves without a word. */
  async function openAndLeave(): Promise<void> {
    const socket: Socket = connect(Number(new URL(server.baseUrl).port), '127.0.0.1');
    socket.write(request);
    await new Promise<void>((resolve, reject) => {
      socket.on('data', (data) => data.includes('content') && resolve());
      socket.on('error', reject);
    });
    socket.destroy();
  }

  async function openAndLeaveMany(count: number): Promise<void> {
    let left = count;
    const worker = async (): Promise<void> => {
      while (left-- > 0) await openAndLeave();
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
    // the few that are kept for the next call are given up after four seconds without one
    for (let i = 0; i < 400 && upstream.sockets > 0; i += 1) await sleep(20);
  }

  it('leave no socket to the upstream and no memory behind', async function () {
    this.timeout(60_000);
    await openAndLeaveMany(200);
    upstream.requests.length = 0;
    collectGarbage();
    const before = process.memoryUsage();
    await openAndLeaveMany(streams);
    expect(upstream.requests).to.have.lengthOf(streams);
    expect(upstream.sockets).to.equal(0);
    upstream.requests.length = 0;
    await sleep(100);
    collectGarbage();
    const after = process.memoryUsage();
    expect(after.heapUsed - before.heapUsed).to.be.below(20e6);
    expect(after.rss - before.rss).to.be.below(60e6);
  });
});
