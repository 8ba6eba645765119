import { runInNewContext } from 'node:vm';
import { expect } from 'chai';
import request from 'supertest';
import { GatewayError } from '../../src/index.ts';
import { recordingLogger } from '../support/logger.ts';
import { type FakeOperation, goodKey, serve } from './fake-edge.ts';
import { connectRaw, head } from './raw-client.ts';

const authorization = `Bearer ${goodKey}`;

const fails = (error: unknown): FakeOperation => ({
  async handle() {
    throw error;
  },
});

describe('an operation that fails', () => {
  it('answers with the status, the headers and the body of its error', async () => {
    const error = new GatewayError('webhook_not_found', 'No such webhook', {
      param: 'id',
      headers: { 'retry-after': '9' },
    });
    const server = await serve({ data: fails(error) });
    const { status, headers, body } = await request(server.url).get('/v1/webhooks').set({ authorization });
    expect([status, headers['retry-after']]).to.deep.equal([404, '9']);
    expect(body).to.deep.equal({
      error: { message: 'No such webhook', type: 'not_found_error', param: 'id', code: 'webhook_not_found' },
    });
    await server.close();
  });

  for (const thrown of [new TypeError('x is not a function'), 'a string', undefined, { secret: 'canary' }]) {
    it(`hides ${String(thrown)} from the client, and logs an error`, async () => {
      const logger = recordingLogger();
      const server = await serve({ data: fails(thrown), logger });
      const { status, text } = await request(server.url).get('/v1/webhooks').set({ authorization });
      expect(status).to.equal(500);
      expect(text).not.to.match(/function|string|canary|edge\.ts/);
      expect(logger.lines.map(({ level }) => level)).to.deep.equal(['error']);
      await server.close();
    });
  }

  it('logs the code and the cause of a GatewayError', async () => {
    const logger = recordingLogger();
    const error = new GatewayError('secret_unreadable', 'Cannot be opened', { cause: new Error('no key k1') });
    const server = await serve({ data: fails(error), logger });
    await request(server.url).get('/v1/webhooks').set({ authorization });
    expect(logger.lines[0]?.fields).to.include({ code: 'secret_unreadable', error: 'Error: no key k1' });
    await server.close();
  });

  it('logs the stack of an error of another realm, as those that Node throws are in Jest', async () => {
    const logger = recordingLogger();
    const server = await serve({ data: fails(runInNewContext("new TypeError('no such file')")), logger });
    await request(server.url).get('/v1/webhooks').set({ authorization });
    expect(logger.lines[0]?.fields).to.include({ error: 'TypeError: no such file' });
    expect(logger.lines[0]?.fields?.stack).to.match(/^TypeError: no such file\n +at /);
    await server.close();
  });

  it('answers 500 when its answer cannot be written as JSON', async () => {
    const cyclic: Record<string, unknown> = {};
    cyclic.self = cyclic;
    const server = await serve({ data: { handle: async () => ({ status: 200, body: cyclic }) } });
    expect((await request(server.url).get('/v1/webhooks').set({ authorization })).status).to.equal(500);
    await server.close();
  });

  it('cuts the connection after the first byte, so that half an answer does not look complete', async () => {
    const cut = await serve({
      relay: {
        async relay(_call, res) {
          res.writeHead(200, { 'content-type': 'text/event-stream' });
          await new Promise<void>((resolve) => {
            res.write('data: 1\n\n', () => resolve());
          });
          throw new GatewayError('upstream_disconnected', 'gone');
        },
      },
    });
    const client = connectRaw(cut.port);
    client.write(head('GET', '/v1/models', { authorization }));
    const text = await client.ended();
    expect(text)
      .to.contain('data: 1')
      .and.not.contain('upstream_disconnected')
      .and.not.match(/\r\n0\r\n\r\n$/);
    await cut.close();
  });

  it('leaves the connection open after the last byte', async () => {
    const logger = recordingLogger();
    const server = await serve({
      logger,
      relay: {
        async relay(_call, res) {
          res.end('whole');
          throw new Error('too late');
        },
      },
    });
    const client = connectRaw(server.port);
    client.write(head('GET', '/v1/models', { authorization }), head('GET', '/v1/models', { authorization }));
    await client.received(/whole[\s\S]*whole/);
    expect(logger.lines.filter(({ level }) => level === 'error')).to.have.length(2);
    client.socket.destroy();
    await server.close();
  });
});
