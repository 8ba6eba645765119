import { expect } from 'chai';
import express from 'express';
import { type Listening, listen } from '../../support/listen.ts';
import { createFakeEdge, goodKey } from '../fake-edge.ts';

const headers = { authorization: `Bearer ${goodKey}` };

describe('the validation of a request', () => {
  let server: Listening;
  let seen: Record<string, unknown> | undefined;

  before(async () => {
    const edge = await createFakeEdge();
    const app = express();
    app.use((req, res, next) => {
      // as middleware does that has to write to Express 5's query
      Object.defineProperty(req, 'query', { value: req.query, writable: true, enumerable: true });
      req.body = 'what the host keeps here';
      const prototype = Object.getPrototypeOf(req);
      res.on('finish', () => {
        const { query, body, url, app: hosts, headers: received } = req;
        const isUnchanged = Object.getPrototypeOf(req) === prototype && hosts === app && !('openapi' in req);
        seen = { query, body, url, isUnchanged, type: received['content-type'] };
      });
      next();
    });
    app.use(edge);
    server = await listen(app);
  });
  after(() => server?.close());

  it('changes nothing in the request that the host sees', async () => {
    const { status } = await fetch(`${server.url}/v1/webhooks?limit=3`, { headers });
    expect(status).to.equal(200);
    expect(seen).to.deep.equal({
      query: { limit: '3' },
      body: 'what the host keeps here',
      url: '/v1/webhooks?limit=3',
      isUnchanged: true,
      type: undefined,
    });
    expect((await fetch(`${server.url}/v1/webhooks?limit=abc`, { headers })).status).to.equal(400);
    expect(seen).to.include({ isUnchanged: true, url: '/v1/webhooks?limit=abc' });
  });

  it('reads an encoded id as an id, and not as the path that it spells', async () => {
    const { status } = await fetch(`${server.url}/v1/responses/%63ompact`, { headers });
    expect(status).to.equal(200);
  });
});
