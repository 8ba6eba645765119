import { expect } from 'chai';
import { createMatcher } from '../../src/http/match.ts';

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

const match = createMatcher(routes);

describe('the table of paths and methods', () => {
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
    it(`has ${method} ${url}`, () => {
      const result = match(method, url);
      expect(result?.kind).to.equal('route');
      if (result?.kind !== 'route') return;
      expect(`${result.route.method} ${result.route.path}`).to.equal(route);
      expect(result.params).to.deep.equal(params);
    });
  }

  const foreign = [
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
    ['GET', ''],
  ] as const;
  for (const [method, url] of foreign) {
    it(`leaves ${method} ${url || '(nothing)'} to the host`, () => {
      expect(match(method, url)).to.equal(undefined);
    });
  }

  const refused = [
    ['GET', '/v1/chat/completions', 'POST'],
    ['POST', '/v1/models', 'GET, HEAD'],
    ['DELETE', '/v1/models/gpt-5', 'GET, HEAD'],
    ['PUT', '/v1/webhooks', 'POST, GET, HEAD'],
    ['GET', '/v1/webhooks/wh_1', 'PATCH, DELETE'],
    ['HEAD', '/v1/webhooks/wh_1', 'PATCH, DELETE'],
    ['TRACE', '/v1/webhooks/%zz', 'PATCH, DELETE'],
  ] as const;
  for (const [method, url, allow] of refused) {
    it(`refuses ${method} ${url}, which takes ${allow}`, () => {
      expect(match(method, url)).to.deep.equal({ kind: 'method_not_allowed', allow });
    });
  }

  for (const url of ['/v1/models/%zz', '/v1/models/a%', '/v1/models/%C3%28', '/v1/models/%ED%A0%80']) {
    it(`names the parameter of ${url} that cannot be decoded`, () => {
      expect(match('GET', url)).to.deep.equal({ kind: 'malformed_parameter', param: 'model' });
    });
  }
});
