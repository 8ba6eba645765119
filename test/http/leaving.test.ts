import { once } from 'node:events';
import { expect } from 'chai';
import request from 'supertest';
import type { Call } from '../../src/http/operation.ts';
import { goodKey, recordingLogger, serve } from './fake-edge.ts';
import { connectRaw, head } from './raw-client.ts';

const authorization = `Bearer ${goodKey}`;

describe('a client that leaves', () => {
  it('aborts the signal of its call, and is no error', async () => {
    const logger = recordingLogger();
    let aborted: (reason: unknown) => void = () => {};
    const reason = new Promise((resolve) => {
      aborted = resolve;
    });
    let started: () => void = () => {};
    const running = new Promise<void>((resolve) => {
      started = resolve;
    });
    const server = await serve({
      logger,
      data: {
        async handle({ signal }: Call) {
          started();
          await once(signal, 'abort');
          aborted(signal.reason);
          throw signal.reason;
        },
      },
    });
    const client = connectRaw(server.port);
    client.write(head('GET', '/v1/webhooks', { authorization }));
    await running;
    client.socket.destroy();
    expect(await reason).to.have.property('message', 'the client left');
    await server.close();
    expect(logger.lines).to.deep.equal([]);
  });

  it('in the middle of its body is no error either', async () => {
    const logger = recordingLogger();
    let calls = 0;
    const server = await serve({
      logger,
      authenticate() {
        calls += 1;
        return { userId: 'usr_1' };
      },
    });
    const client = connectRaw(server.port);
    client.write(head('POST', '/v1/webhooks', { 'content-type': 'application/json', 'content-length': '500' }), '{');
    while (calls === 0) await new Promise((resolve) => setTimeout(resolve, 2));
    client.socket.destroy();
    await once(client.socket, 'close');
    await request(server.url).get('/v1/models');
    expect(logger.lines).to.deep.equal([]);
    await server.close();
  });

  it('is nobody when the answer was complete', async () => {
    let signal: AbortSignal | undefined;
    const server = await serve({
      data: {
        async handle(call: Call) {
          signal = call.signal;
          return { status: 200, body: {} };
        },
      },
    });
    const client = connectRaw(server.port);
    client.write(head('GET', '/v1/webhooks', { authorization }));
    await client.received(/\{\}$/);
    client.socket.destroy();
    await server.close();
    expect(signal?.aborted).to.equal(false);
  });
});
