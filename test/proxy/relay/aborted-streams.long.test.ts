import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { callerKey } from '../../support/model-server.ts';
import { compiledScript } from '../../support/processes/compiled-script.ts';
import { until } from '../../support/until.ts';
import { ScriptedUpstream, stall } from '../../support/upstream.ts';

const streams = 1_000;
const atOnce = 100;
const script = fileURLToPath(new URL('./measured-server.ts', import.meta.url));

describe('a thousand streams', () => {
  let upstream: ScriptedUpstream;
  let server: ChildProcess;
  let port: number;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    upstream.script = stall('data: {"choices":[{"delta":{"content":"a"}}]}\n\n');
    // a process of its own: the clients' and the upstream's memory is none of the gateway's
    server = fork(await compiledScript(script), [upstream.baseUrl], { execArgv: ['--expose-gc'] });
    const [baseUrl] = await once(server, 'message');
    port = Number(new URL(baseUrl).port);
  });

  after(async () => {
    server.kill();
    await upstream.close();
  });

  const body = '{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"}]}';
  const head = (line: string) => `${line} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${callerKey}\r\n`;
  const requests = {
    'of chats': `${head('POST /v1/chat/completions')}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    'of responses that are streamed again': `${head('GET /v1/responses/resp_1?stream=true')}\r\n`,
  };

  /** Opens a stream and, when its first event has come, leaves without a word. */
  async function openAndLeave(request: string): Promise<void> {
    const socket: Socket = connect(port, '127.0.0.1');
    socket.write(request);
    await new Promise<void>((resolve, reject) => {
      socket.on('data', (data) => data.includes('content') && resolve());
      socket.on('error', reject);
    });
    socket.destroy();
  }

  /** Resolves when every upstream call has ended and the connections that were kept for the next one are given up. */
  async function openAndLeaveAll(request: string): Promise<void> {
    upstream.requests.length = 0;
    let left = streams;
    const worker = async (): Promise<void> => {
      while (left-- > 0) await openAndLeave(request);
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
    const finished = await Promise.all(upstream.requests.map(({ closed }) => closed));
    expect(finished).to.have.lengthOf(streams).and.not.to.include(true);
    // undici makes a connection anew in the place of one that a call was cut off on: what is left is its pool, as large
    // as the crowd was, and those who came a moment before somebody was seen to have left
    expect(upstream.sockets).to.be.at.most(1.1 * atOnce);
    upstream.requests.length = 0;
    // four seconds without a call
    await until(() => upstream.sockets === 0, 8_000);
    expect(upstream.sockets).to.equal(0);
  }

  async function memory(): Promise<NodeJS.MemoryUsage> {
    server.send('measure');
    const [usage] = await once(server, 'message');
    return usage;
  }

  for (const [which, request] of Object.entries(requests)) {
    it(`${which} leave no socket to the upstream and no memory behind when their clients disconnect`, async function () {
      this.timeout(90_000);
      // once, so that what the allocators and the young generation keep for such a crowd is there already
      await openAndLeaveAll(request);
      let before = await memory();
      let grown: number;
      let rounds = 0;
      // what streams leave behind grows with every round; what the allocator takes from the system, with some
      do {
        await openAndLeaveAll(request);
        const after = await memory();
        expect(after.heapUsed + after.external - before.heapUsed - before.external).to.be.below(20e6);
        grown = after.rss - before.rss;
        before = after;
        rounds += 1;
      } while (grown >= 20e6 && rounds < 3);
      expect(grown).to.be.below(20e6);
    });
  }
});
