import { expect } from 'chai';
import type { Route } from '../../src/http/router.ts';
import { addRoutes, createRouter, pathParams } from '../../src/http/router.ts';
import { type WireAnswer, WireClient } from '../gateway/mounting/in-front/exchange.ts';
import { type Listening, listen } from '../support/listen.ts';
import { recordingLogger } from '../support/logger.ts';

const routes = [
  { method: 'POST', path: '/v1/chat/completions' },
  { method: 'GET', path: '/v1/models' },
  { method: 'GET', path: '/v1/models/{model}' },
  { method: 'POST', path: '/v1/webhooks' },
  { method: 'GET', path: '/v1/webhooks' },
  { method: 'PATCH', path: '/v1/webhooks/{id}' },
  { method: 'DELETE', path: '/v1/webhooks/{id}' },
  { method: 'POST', path: '/v1/webhooks/{id}/test' },
  { method: 'GET', path: '/v1/webhooks/{id}/deliveries/{delivery}' },
];

/** How the host behind the router answers. */
const foreign = 299;

/** The error that a router refused a request with. */
function refusal({ headers }: WireAnswer): unknown {
  return JSON.parse(headers.find(([name]) => name === 'x-refusal')?.[1] ?? 'null');
}

describe('the router', () => {
  let server: Listening;
  let client: WireClient;

  before(async () => {
    const router = createRouter(recordingLogger());
    addRoutes(
      router,
      { routes: routes as Route[], sockets: [] },
      {
        answer: (route) => (req, res) =>
          res.end(JSON.stringify({ route: `${route.method} ${route.path}`, params: pathParams(route, req) })),
        refuse(req, res, { code, param, headers }) {
          const { allow } = headers;
          res.writeHead(400, { 'x-refusal': JSON.stringify({ code, param, allow }) }).end();
          req.resume();
        },
      },
    );
    server = await listen((req, res) => router(req, res, () => res.writeHead(foreign).end()));
    client = new WireClient(server.port);
  });
  after(() => {
    client.close();
    return server.close();
  });

  const send = (method: string, target: string) => client.send({ method, target, headers: ['host', 'localhost'] });

  const found: [method: string, url: string, route: string, params: Record<string, string>][] = [
    ['POST', '/v1/chat/completions', 'POST /v1/chat/completions', {}],
    ['POST', '/v1/chat/completions/', 'POST /v1/chat/completions', {}],
    ['POST', '/v1/chat/completions?x=/y', 'POST /v1/chat/completions', {}],
    ['GET', '/v1/models', 'GET /v1/models', {}],
    ['GET', '/v1/models/', 'GET /v1/models', {}],
    ['HEAD', '/v1/models', 'GET /v1/models', {}],
    ['GET', '/v1/models/gpt-5', 'GET /v1/models/{model}', { model: 'gpt-5' }],
    ['GET', '/v1/models/gpt-5/', 'GET /v1/models/{model}', { model: 'gpt-5' }],
    ['GET', '/v1/models/meta/llama-3', 'GET /v1/models/{model}', { model: 'meta/llama-3' }],
    ['GET', '/v1/models/meta%2Fllama-3', 'GET /v1/models/{model}', { model: 'meta/llama-3' }],
    ['GET', '/v1/models/a/b%2fc/d', 'GET /v1/models/{model}', { model: 'a/b/c/d' }],
    ['GET', '/v1/models/ft%3Agpt:x%20y', 'GET /v1/models/{model}', { model: 'ft:gpt:x y' }],
    ['PATCH', '/v1/webhooks/wh_1?x', 'PATCH /v1/webhooks/{id}', { id: 'wh_1' }],
    ['DELETE', '/v1/webhooks/%2F', 'DELETE /v1/webhooks/{id}', { id: '/' }],
    ['POST', '/v1/webhooks/wh_1/test', 'POST /v1/webhooks/{id}/test', { id: 'wh_1' }],
    ['GET', '/v1/webhooks/a/deliveries/b', 'GET /v1/webhooks/{id}/deliveries/{delivery}', { id: 'a', delivery: 'b' }],
  ];
  for (const [method, url, route, params] of found) {
    it(`routes ${method} ${url} to ${route}`, async () => {
      const { status, body } = await send(method, url);
      expect(status).to.equal(200);
      if (method !== 'HEAD') expect(JSON.parse(body.toString())).to.deep.equal({ route, params });
    });
  }

  const others = [
    ['GET', '/'],
    ['GET', '/v1'],
    ['GET', '/v1/'],
    ['GET', '/v1/model'],
    ['GET', '/v1/modelsx'],
    ['GET', '/v1/webhooks//'],
    ['GET', '/V1/models'],
    ['GET', '//v1/models'],
    ['GET', '/x/v1/models'],
    ['PATCH', '/v1/webhooks/a/b'],
    ['GET', '/v1/%77ebhooks'],
    ['GET', '/v1/webhooks.json'],
    ['GET', '/v1?/v1/models'],
    ['POST', '/v1/chat/%zz'],
    ['OPTIONS', '/v1/models'],
    ['OPTIONS', '/v1/webhooks/wh_1'],
    ['OPTIONS', '*'],
    ['OPTIONS', '/v1/v1/models'],
    ['GET', '/v1/v1'],
    ['GET', '/v1/v1/own'],
    ['GET', '/v1/v1/webhooks.json'],
    ['GET', '/v1/v2/models'],
  ] as const;
  for (const [method, url] of others) {
    it(`leaves ${method} ${url} to the host`, async () => {
      expect((await send(method, url)).status).to.equal(foreign);
    });
  }

  const refused = [
    ['GET', '/v1/chat/completions', 'POST'],
    ['POST', '/v1/models', 'GET, HEAD'],
    ['DELETE', '/v1/models/gpt-5', 'GET, HEAD'],
    ['PUT', '/v1/webhooks', 'POST, GET, HEAD'],
    ['GET', '/v1/webhooks/wh_1', 'PATCH, DELETE'],
    ['HEAD', '/v1/webhooks/wh_1', 'PATCH, DELETE'],
    ['TRACE', '/v1/webhooks/%7a', 'PATCH, DELETE'],
  ] as const;
  for (const [method, url, allow] of refused) {
    it(`refuses ${method} ${url}, which takes ${allow}`, async () => {
      expect(refusal(await send(method, url))).to.deep.equal({ code: 'method_not_allowed', param: null, allow });
    });
  }

  for (const [method, url] of [
    ['POST', '/v1/v1/chat/completions'],
    ['GET', '/v1/v1/chat/completions/'],
    ['GET', '/v1/v1/models?limit=1'],
    ['GET', '/v1/v1/models/meta/llama-3'],
    ['GET', '/v1/v1/models/%zz'],
    ['DELETE', '/v1/v1/webhooks/wh_1'],
    ['POST', '/v1/v1/webhooks/wh_1/test'],
  ] as const) {
    it(`refuses ${method} ${url}, whose base URL has the version already`, async () => {
      expect(refusal(await send(method, url))).to.deep.equal({ code: 'endpoint_not_served', param: null });
    });
  }

  for (const url of ['/v1/models/%zz', '/v1/models/a%', '/v1/models/%C3%28', '/v1/models/%ED%A0%80']) {
    it(`names the parameter of ${url} that cannot be decoded`, async () => {
      expect(refusal(await send('GET', url))).to.deep.equal({ code: 'invalid_value', param: 'model' });
    });
  }
});
