import { once } from 'node:events';
import { expect } from 'chai';
import request from 'supertest';
import { GatewayError } from '../../src/errors.ts';
import type { EdgeDependencies } from '../../src/http/edge.ts';
import type { Call, Operation } from '../../src/http/operation.ts';
import { loadSpec } from '../../src/spec.ts';
import { createFakeEdge, fakeOperations, goodKey, type Listening, listen, recordingLogger } from './fake-edge.ts';
import { connectRaw, head } from './raw-client.ts';

const authorization = `Bearer ${goodKey}`;

/** A server with the edge alone, in which listModels (relayed) and listWebhooks are the test's. */
async function serve(own: { relay?: Operation; data?: Operation } & Partial<EdgeDependencies>): Promise<Listening> {
  const { relay, data, ...deps } = own;
  const operations = fakeOperations({ ...(relay && { listModels: relay }), ...(data && { listWebhooks: data }) });
  const edge = await createFakeEdge({ operations, ...deps });
  return listen((req, res) => edge(req, res, () => res.writeHead(299).end()));
}

const fails = (error: unknown): Operation => ({
  async handle() {
    throw error;
  },
});

describe('authentication at the edge', () => {
  const cases: [name: string, headers: string[], code: string][] = [
    ['no header', [], 'missing_api_key'],
    ['an empty one', ['authorization: '], 'missing_api_key'],
    ['another scheme', ['authorization: Basic dTpw'], 'invalid_authorization'],
    ['two headers', [`authorization: ${authorization}`, `Authorization: ${authorization}`], 'invalid_authorization'],
    ['a wrong key', ['authorization: Bearer wrong-key'], 'invalid_api_key'],
  ];
  for (const [name, lines, code] of cases) {
    it(`answers 401 ${code} to ${name}, whatever the body`, async () => {
      const server = await serve({});
      const client = connectRaw(server.port);
      client.write(
        `POST /v1/webhooks HTTP/1.1\r\nhost: x\r\n${lines.map((line) => `${line}\r\n`).join('')}content-length: 900000000\r\n\r\n`,
      );
      const text = await client.received(/\}\}$/);
      expect(text)
        .to.match(/^HTTP\/1\.1 401 /)
        .and.contain(`"code":"${code}"`);
      expect(text)
        .to.match(/www-authenticate: Bearer\r\n/i)
        .and.match(/x-request-id: req_/i);
      client.socket.destroy();
      await server.close();
    });
  }

  it('comes before the body is looked at', async () => {
    let readable = false;
    const server = await serve({
      authenticate(req) {
        readable = req.readableDidRead;
        return null;
      },
    });
    await request(server.url).post('/v1/webhooks').set({ 'content-type': 'text/plain' }).send('x');
    expect(readable).to.equal(false);
    await server.close();
  });

  it('passes on what an error of ours says', async () => {
    const server = await serve({
      async authenticate() {
        throw new GatewayError('shutting_down', 'Try again in a moment', { headers: { 'retry-after': '1' } });
      },
    });
    const { status, headers, body } = await request(server.url).get('/v1/models');
    expect([status, headers['retry-after'], body.error.code]).to.deep.equal([503, '1', 'shutting_down']);
    await server.close();
  });

  it('that fails is a 500, and no credential of the caller reaches the log or the answer', async () => {
    const logger = recordingLogger();
    const server = await serve({
      logger,
      authenticate(req) {
        throw Object.assign(new Error(`cannot look up ${req.headers.authorization} of ${req.headers.cookie}`), {
          config: { headers: req.headers },
        });
      },
    });
    const { status, body, text } = await request(server.url)
      .get('/v1/models')
      .set({ authorization: 'Bearer canary-secret', cookie: 'sid=canary-cookie' });
    expect([status, body.error.code]).to.deep.equal([500, 'internal_error']);
    expect(text).not.to.contain('canary');
    expect(logger.lines).to.have.length(1);
    expect(JSON.stringify(logger.lines)).to.contain('cannot look up').and.not.contain('canary');
    await server.close();
  });
});

describe('the request id', () => {
  let server: Listening;
  before(async () => {
    server = await serve({});
  });
  after(() => server.close());

  it("is the client's own when it is a short plain token", async () => {
    const { headers, body } = await request(server.url)
      .get('/v1/models')
      .set({ authorization, 'x-request-id': 'a.B-9_' });
    expect([headers['x-request-id'], body.requestId]).to.deep.equal(['a.B-9_', 'a.B-9_']);
  });

  for (const id of ['', 'a b', 'x'.repeat(65), '<script>', 'a,b', 'é']) {
    it(`is a new one instead of ${JSON.stringify(id)}`, async () => {
      const client = connectRaw(server.port);
      client.write(head('GET', '/v1/models', { authorization, 'x-request-id': id }));
      expect(await client.received(/\r\n\r\n/)).to.match(/x-request-id: req_[0-9a-z]{26}\r\n/);
      client.socket.destroy();
    });
  }

  it('is the one the host has put on the answer', async () => {
    const edge = await createFakeEdge();
    const host = await listen((req, res) => {
      res.setHeader('x-request-id', 'host-1');
      edge(req, res, () => res.end());
    });
    const { headers, body } = await request(host.url)
      .get('/v1/models')
      .set({ authorization, 'x-request-id': 'client-1' });
    expect([headers['x-request-id'], body.requestId]).to.deep.equal(['host-1', 'host-1']);
    await host.close();
  });
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
    it(`hides ${String(thrown)}`, async () => {
      const logger = recordingLogger();
      const server = await serve({ data: fails(thrown), logger });
      const { status, text } = await request(server.url).get('/v1/webhooks').set({ authorization });
      expect(status).to.equal(500);
      expect(text).not.to.match(/function|string|canary|edge\.ts/);
      expect(logger.lines.map(({ level }) => level)).to.deep.equal(['error']);
      await server.close();
    });
  }

  it('is told to the log with what caused it, when the failure is ours', async () => {
    const logger = recordingLogger();
    const error = new GatewayError('secret_unreadable', 'Cannot be opened', { cause: new Error('no key k1') });
    const server = await serve({ data: fails(error), logger });
    await request(server.url).get('/v1/webhooks').set({ authorization });
    expect(logger.lines[0]?.fields).to.include({ code: 'secret_unreadable', error: 'Error: no key k1' });
    await server.close();
  });

  it('with an answer that is no JSON is a 500', async () => {
    const cyclic: Record<string, unknown> = {};
    cyclic.self = cyclic;
    const server = await serve({ data: { handle: async () => ({ status: 200, body: cyclic }) } });
    expect((await request(server.url).get('/v1/webhooks').set({ authorization })).status).to.equal(500);
    await server.close();
  });

  it('after its first byte cuts the connection, so that half an answer does not pass for a whole one', async () => {
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

  it('after its last byte leaves the connection alone', async () => {
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

describe('making an edge', () => {
  it('fails when nothing does an operation of openapi.yaml', async () => {
    const { listModels: _, ...operations } = fakeOperations();
    const error = await createFakeEdge({ operations }).catch((thrown) => thrown);
    expect(error).to.have.property('message').that.contains('listModels');
  });

  it('fails when openapi.yaml does not hold together', async () => {
    const spec = structuredClone(loadSpec()) as { components: { schemas: Record<string, unknown> } };
    delete spec.components.schemas.WebhookCreate;
    const error = await createFakeEdge({ spec: spec as never }).catch((thrown) => thrown);
    expect(error).to.be.an('error').and.not.to.be.instanceOf(GatewayError);
  });

  it('leaves the document it is given as it was', async () => {
    const spec = loadSpec();
    await createFakeEdge({ spec });
    expect(spec).to.deep.equal(loadSpec());
  });

  it('says what to do when the host has read a body and kept nothing', async () => {
    const logger = recordingLogger();
    const edge = await createFakeEdge({ logger });
    const server = await listen(async (req, res) => {
      for await (const _ of req);
      edge(req, res, () => res.end());
    });
    const { status } = await request(server.url)
      .post('/v1/webhooks')
      .set({ authorization, 'content-type': 'application/json' })
      .send('{}');
    expect(status).to.equal(500);
    expect(JSON.stringify(logger.lines)).to.contain('the host has read the body');
    await server.close();
  });
});
