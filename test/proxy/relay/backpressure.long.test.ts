import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { callerKey, type ModelServer, startModelServer } from '../../support/model-server.ts';
import { collectGarbage } from '../../support/processes/held-memory.ts';
import { type Script, ScriptedUpstream } from '../../support/upstream.ts';

const size = 32 * 1024 * 1024;
/** What the buffers of four sockets on loopback may hold, and the streams between them. */
const buffers = 16 * 1024 * 1024;

describe('a client that reads slowly', () => {
  let upstream: ScriptedUpstream;
  let server: ModelServer;
  let written: number;
  const done = 'data: [DONE]\n\n';

  before(async () => {
    upstream = await ScriptedUpstream.start();
    server = await startModelServer({
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl, timeouts: { betweenChunks: 150 } }],
    });
  });

  after(async () => {
    await server.close();
    await upstream.close();
  });

  /** Writes `size` bytes, as fast as they are taken. */
  function pour(contentType: string, first: string, middle: string, last: string): Script {
    return async (res) => {
      written = 0;
      res.writeHead(200, { 'content-type': contentType });
      res.write(first);
      const part = Buffer.from(middle.repeat(Math.ceil(65_536 / middle.length)));
      while (written < size && !res.destroyed) {
        written += part.length;
        if (!res.write(part)) await once(res, 'drain');
      }
      res.end(last);
    };
  }

  for (const [what, script, stream] of [
    ['a stream', pour('text/event-stream', '', 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n', done), true],
    ['events without end', pour('text/event-stream', 'data: ', 'x', `\n\n${done}`), true],
    ['a body', pour('application/json', '{"a":"', 'x', '"}'), false],
  ] as const) {
    it(`slows down the upstream of ${what}, does not run into its time limit, and gets every byte`, async () => {
      upstream.script = script;
      const call = httpRequest(`${server.baseUrl}/chat/completions`, {
        method: 'POST',
        agent: false,
        headers: { authorization: `Bearer ${callerKey}`, 'content-type': 'application/json' },
      });
      call.end(JSON.stringify({ model: 'm', stream, messages: [{ role: 'user', content: 'Hi' }] }));
      const [response] = (await once(call, 'response')) as [IncomingMessage];
      const buffered = (): number => {
        collectGarbage();
        return process.memoryUsage().arrayBuffers;
      };
      const heldBefore = buffered();
      let before = -1;
      while (written !== before) {
        before = written;
        // shows that nothing more is written
        await sleep(200);
      }
      expect(written).to.be.below(buffers);
      expect(buffered() - heldBefore).to.be.below(4 * 1024 * 1024);
      let read = 0;
      for await (const chunk of response) read += chunk.length;
      expect(written).to.be.at.least(size);
      expect(read).to.be.at.least(written);
      expect(response.complete).to.equal(true);
    }).timeout(60_000);
  }
});
