import { once } from 'node:events';
import { expect } from 'chai';
import express from 'express';
import request from 'supertest';
import { keepRawBody } from '../../src/index.ts';
import { listen } from '../support/listen.ts';
import { recordingLogger } from '../support/logger.ts';
import { until } from '../support/until.ts';
import { createFakeEdge, type FakeRequest, goodKey, serve } from './fake-edge.ts';
import { connectRaw, head } from './raw-client.ts';

const authorization = `Bearer ${goodKey}`;

describe('a client that disconnects', () => {
  it('is reported to its operation, and causes no log line', async () => {
    const logger = recordingLogger();
    let left: () => void = () => {};
    const leaving = new Promise<void>((resolve) => {
      left = resolve;
    });
    let started: () => void = () => {};
    const running = new Promise<void>((resolve) => {
      started = resolve;
    });
    const server = await serve({
      logger,
      data: {
        async handle({ client }: FakeRequest) {
          started();
          await new Promise<void>((resolve) => client.onDisconnect(resolve));
          left();
          throw new Error('nobody is answered');
        },
      },
    });
    const client = connectRaw(server.port);
    client.write(head('GET', '/v1/webhooks', { authorization }));
    await running;
    client.socket.destroy();
    await leaving;
    await server.close();
    expect(logger.lines).to.deep.equal([]);
  });

  it('while its key is checked frees the memory of the body that the host has read', async () => {
    const waiting: ((principal: { userId: string }) => void)[] = [];
    const edge = await createFakeEdge({
      bodyMemory: 1_000,
      authenticate: () => new Promise((resolve) => waiting.push(resolve)),
    });
    const app = express().use(express.json({ verify: keepRawBody }));
    const closed: Promise<unknown>[] = [];
    app.use((_req, res, next) => {
      closed.push(once(res, 'close'));
      next();
    });
    const server = await listen(app.use(edge));
    const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x'.repeat(400) }] });
    const headers = { 'content-type': 'application/json', 'content-length': String(body.length) };

    const client = connectRaw(server.port);
    client.write(head('POST', '/v1/chat/completions', headers), body);
    await until(() => waiting.length > 0);
    client.socket.destroy();
    await closed[0];
    waiting[0]?.({ userId: 'usr_1' });

    const answer = request(server.url).post('/v1/chat/completions').set('content-type', 'application/json').send(body);
    const answered = answer.then(({ status }) => status);
    await until(() => waiting.length !== 1);
    waiting[1]?.({ userId: 'usr_1' });
    expect(await answered).to.equal(200);
    await server.close();
  });

  it('in the middle of its body causes no log line either', async () => {
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
    await until(() => calls > 0);
    client.socket.destroy();
    await once(client.socket, 'close');
    await request(server.url).get('/v1/models');
    expect(logger.lines).to.deep.equal([]);
    await server.close();
  });

  it('after the complete answer does not count as disconnected', async () => {
    let seen: FakeRequest['client'] | undefined;
    const server = await serve({
      data: {
        async handle(request: FakeRequest) {
          seen = request.client;
          return { status: 200, body: {} };
        },
      },
    });
    const client = connectRaw(server.port);
    client.write(head('GET', '/v1/webhooks', { authorization }));
    await client.received(/\{\}$/);
    client.socket.destroy();
    await server.close();
    expect(seen?.disconnected).to.equal(false);
  });
});
