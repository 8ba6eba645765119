import { expect } from 'chai';
import request from 'supertest';
import { GatewayError } from '../../src/index.ts';
import { type Listening, listen } from '../support/listen.ts';
import { recordingLogger } from '../support/logger.ts';
import { loadSpec } from '../support/openapi.ts';
import { createFakeEdge, fakeOperations, goodKey, serve } from './fake-edge.ts';
import { connectRaw, head } from './raw-client.ts';

const authorization = `Bearer ${goodKey}`;

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

describe('an edge', () => {
  it('cannot be created when an operation of openapi.yaml has no implementation', async () => {
    const { listModels: _, ...operations } = fakeOperations();
    const error = await createFakeEdge({ operations }).catch((thrown) => thrown);
    expect(error).to.have.property('message').that.contains('listModels');
  });

  it('cannot be created when openapi.yaml refers to a schema that it lacks', async () => {
    const spec = structuredClone(loadSpec()) as { components: { schemas: Record<string, unknown> } };
    delete spec.components.schemas.WebhookCreate;
    const error = await createFakeEdge({ spec: spec as never }).catch((thrown) => thrown);
    expect(error).to.be.an('error').and.not.to.be.instanceOf(GatewayError);
  });

  it('does not change the document it is given', async () => {
    const spec = loadSpec();
    await createFakeEdge({ spec });
    expect(spec).to.deep.equal(loadSpec());
  });

  it('answers 500 and logs why when the host has read a body and kept nothing of it', async () => {
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
