import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import express from 'express';
import express4 from 'express4';
import type { ModelGateway } from '../../src/index.ts';
import { type Listening, listen } from '../support/listen.ts';
import { recordingLogger } from '../support/logger.ts';
import { createFakeEdge, goodKey } from './fake-edge.ts';

describe('a router with no host behind it', () => {
  const logger = recordingLogger();
  let router: ModelGateway['router'];
  let server: Listening;

  before(async () => {
    router = await createFakeEdge({ logger });
    server = await listen(router);
  });
  after(() => server.close());

  it('answers its own routes', async () => {
    const response = await fetch(`${server.url}/v1/webhooks`, { headers: { authorization: `Bearer ${goodKey}` } });
    expect(response.status).to.equal(200);
  });

  for (const [method, path] of [
    ['GET', '/'],
    ['POST', '/chat/completions'],
    ['GET', '/v10/models'],
  ] as const) {
    it(`answers ${method} ${path} with 404 in the error shape`, async () => {
      const response = await fetch(`${server.url}${path}?a=b`, { method });
      expect(response.status).to.equal(404);
      expect(response.headers.get('x-request-id')).to.match(/^req_/);
      expect(response.headers.get('cache-control')).to.equal('no-store');
      expect(await response.json()).to.deep.equal({
        error: {
          message: `There is no ${method} ${path} here; the API is under /v1`,
          type: 'not_found_error',
          param: null,
          code: 'not_found',
        },
      });
    });
  }

  for (const [method, path] of [
    ['GET', '/v1'],
    ['POST', '/v1/live/sessions'],
    ['OPTIONS', '/v1/webhooks'],
  ] as const) {
    it(`answers ${method} ${path} with 404 and a list of the model endpoints`, async () => {
      const response = await fetch(`${server.url}${path}?a=b`, { method });
      expect(response.status).to.equal(404);
      expect(response.headers.get('x-request-id')).to.match(/^req_/);
      const { error } = (await response.json()) as { error: Record<string, unknown> };
      expect(error).to.include({ type: 'not_found_error', param: null, code: 'endpoint_not_served' });
      expect(error.message).to.equal(
        `This gateway does not serve ${method} ${path}; the model endpoints are /v1/chat/completions, /v1/models and those below them`,
      );
    });
  }

  for (const [path, says] of [
    ['/v1/fine_tuning/alpha/graders/run', 'Graders alone are an alpha'],
    ['/v1/fine_tuning/checkpoints/ft:m/permissions', "an admin key of the provider's organization"],
    ['/v1/videos', 'OpenAI has shut the Videos API down'],
  ] as const) {
    it(`says why POST ${path} is not served`, async () => {
      const response = await fetch(`${server.url}${path}`, { method: 'POST', body: '{}' });
      const { error } = (await response.json()) as { error: { code: string; message: string } };
      expect([response.status, error.code]).to.deep.equal([404, 'endpoint_not_served']);
      expect(error.message).to.include(says);
    });
  }

  it('says where the base URL has /v1 already, also below a mount path, and leaves the other paths to the host', async () => {
    const app = express().use('/api', router);
    app.use((_req, res) => void res.status(299).send('of the host'));
    const host = await listen(app);
    for (const base of [server.url, `${host.url}/api`]) {
      const response = await fetch(`${base}/v1/v1/chat/completions`, { method: 'POST', body: '{}' });
      expect(response.status).to.equal(404);
      expect(await response.json()).to.deep.equal({
        error: {
          message: 'The base URL already ends in /v1: send POST /v1/chat/completions, and not /v1/v1/chat/completions',
          type: 'not_found_error',
          param: null,
          code: 'endpoint_not_served',
        },
      });
    }
    expect((await fetch(`${host.url}/api/v1/v1/own`)).status).to.equal(299);
    await host.close();
  });

  it('keeps the connection open after a body that no route reads', async () => {
    const response = await fetch(`${server.url}/v1/nothing`, { method: 'POST', body: 'x'.repeat(100_000) });
    expect([response.status, response.headers.get('connection')]).to.deep.equal([404, 'keep-alive']);
  });

  it('does not change an answer that the host has already sent, and logs an error', async () => {
    const host = await listen((req, res) => {
      res.end('of the host');
      router(req, res);
    });
    const response = await fetch(`${host.url}/v1/nothing`);
    expect([response.status, await response.text()]).to.deep.equal([200, 'of the host']);
    // a router that has no route for a request says so in the next turn
    await setImmediate();
    expect(logger.lines.map(({ level }) => level)).to.deep.equal(['error']);
    await host.close();
  });

  for (const [version, framework] of [
    ['Express 4', express4],
    ['Express 5', express],
  ] as const) {
    it(`leaves an unknown path to ${version} when that is behind it`, async () => {
      const app = framework().use(router);
      app.use((_req, res) => void res.status(299).send('of the host'));
      const host = await listen(app);
      expect((await fetch(`${host.url}/v1/nothing`)).status).to.equal(299);
      await host.close();
    });
  }
});
