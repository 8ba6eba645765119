import { once } from 'node:events';
import { connect } from 'node:net';
import { expect } from 'chai';
import express from 'express';
import { CORE_SCHEMA, load } from 'js-yaml';
import { addOpenApiRoutes } from '../../src/http/openapi-routes.ts';
import { OpenRequests } from '../../src/http/request.ts';
import { createRouter } from '../../src/http/router.ts';
import { type Listening, listen } from '../support/listen.ts';
import { silentLogger } from '../support/logger.ts';
import { loadSpec } from '../support/openapi.ts';

describe('the description of the API', () => {
  let mounted: Listening;
  let inFront: Listening;

  before(async () => {
    const router = createRouter(silentLogger);
    addOpenApiRoutes(router, { spec: loadSpec(), openRequests: new OpenRequests(), logger: silentLogger });
    const app = express().use('/tenants/:name', router).use(router);
    app.options('/v1/openapi.json', (_req, res) => void res.status(204).set('x-host', 'cors').end());
    mounted = await listen(app);
    inFront = await listen(router);
  });
  after(() => Promise.all([mounted.close(), inFront.close()]));

  const places: [path: string, server: string][] = [
    ['', '/'],
    ['/tenants/a', '/tenants/a'],
    ['/tenants/%22%20x', '/tenants/%22%20x'],
  ];
  for (const [path, url] of places) {
    it(`is the same as JSON and as YAML at ${path || 'the root'}, and names the server ${url}`, async () => {
      const servers = [{ url, description: 'This gateway. Every path starts with /v1.' }];
      const json = await fetch(`${mounted.url}${path}/v1/openapi.json`);
      expect(json.headers.get('content-type')).to.equal('application/json; charset=utf-8');
      expect(await json.json()).to.deep.equal({ ...loadSpec(), servers });
      const yaml = await fetch(`${mounted.url}${path}/v1/openapi.yaml`);
      expect(yaml.headers.get('content-type')).to.equal('application/yaml; charset=utf-8');
      expect(load(await yaml.text(), { schema: CORE_SCHEMA })).to.deep.equal({ ...loadSpec(), servers });
    });
  }

  it('keeps no gateway open that closes, when the client of a pipelined request has left', async () => {
    const openRequests = new OpenRequests();
    const router = createRouter(silentLogger);
    addOpenApiRoutes(router, { spec: loadSpec(), openRequests, logger: silentLogger });
    let answered = () => {};
    const isAnswered = new Promise<void>((resolve) => {
      answered = resolve;
    });
    const app = express()
      .get('/hangs', () => {})
      .use(router);
    const server = await listen((req, res) => {
      app(req, res);
      if (req.url === '/v1/openapi.json') answered();
    });
    const client = connect(Number(new URL(server.url).port), '127.0.0.1');
    await once(client, 'connect');
    client.write(['/hangs', '/v1/openapi.json'].map((path) => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`).join(''));
    await isAnswered;
    client.destroy();
    await openRequests.drain(600_000);
    await server.close();
  });

  it('is served in front of Express too', async () => {
    const { servers } = (await (await fetch(`${inFront.url}/v1/openapi.json`)).json()) as {
      servers: { url: string }[];
    };
    expect(servers.map(({ url }) => url)).to.deep.equal(['/']);
  });

  it('may be cached, and gets 304 when the client has it', async () => {
    const url = `${mounted.url}/v1/openapi.yaml`;
    const first = await fetch(url);
    const etag = first.headers.get('etag') ?? '';
    expect(first.headers.get('cache-control')).to.equal('public, max-age=300');
    for (const version of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
      const again = await fetch(url, { headers: { 'if-none-match': version } });
      expect([again.status, again.headers.get('etag'), await again.text()]).to.deep.equal([304, etag, '']);
    }
    expect((await fetch(url, { headers: { 'if-none-match': '"other"' } })).status).to.equal(200);
    const elsewhere = await fetch(`${mounted.url}/tenants/a/v1/openapi.yaml`);
    expect(elsewhere.headers.get('etag')).to.not.equal(etag);
  });

  it('accepts only GET and HEAD, and leaves OPTIONS to the host', async () => {
    const url = `${mounted.url}/v1/openapi.json`;
    const head = await fetch(url, { method: 'HEAD' });
    expect([head.status, Number(head.headers.get('content-length')) > 100_000, await head.text()]).to.deep.equal([
      200,
      true,
      '',
    ]);
    const post = await fetch(url, { method: 'POST' });
    expect([post.status, post.headers.get('allow')]).to.deep.equal([405, 'GET, HEAD']);
    const options = await fetch(url, { method: 'OPTIONS' });
    expect([options.status, options.headers.get('x-host')]).to.deep.equal([204, 'cors']);
  });
});
