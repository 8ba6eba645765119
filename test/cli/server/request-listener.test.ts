import { IncomingMessage, ServerResponse } from 'node:http';
import { expect } from 'chai';
import { createRequestListener } from '../../../src/cli/server/http-server.ts';
import { createRouter } from '../../../src/http/router.ts';
import type { ModelGateway } from '../../../src/index.ts';
import { connectRaw, head } from '../../http/raw-client.ts';
import { listen } from '../../support/listen.ts';
import { recordingLogger } from '../../support/logger.ts';

type Router = ModelGateway['router'];

const knowsNothing: Router = createRouter(recordingLogger(), { models: ['/v1/models'] });

/** What a server with this router answers to a GET. */
async function get(router: Router, path = '/', hstsMaxAge?: number): Promise<Response> {
  const server = await listen(createRequestListener(router, hstsMaxAge));
  const response = await fetch(server.url + path);
  await response.clone().arrayBuffer();
  await server.close();
  return response;
}

describe('the request listener of a stand-alone gateway', () => {
  it('passes requests to the router before Express changes them', async () => {
    const seen: unknown[] = [];
    const response = await get((req, res) => {
      seen.push(Object.getPrototypeOf(req), Object.getPrototypeOf(res));
      res.end('answered');
    });
    expect(seen).to.deep.equal([IncomingMessage.prototype, ServerResponse.prototype]);
    expect(await response.text()).to.equal('answered');
  });

  it('answers 404 in the error shape for an unknown path', async () => {
    const response = await get(knowsNothing, '/nothing?a=b');
    expect(response.status).to.equal(404);
    expect(response.headers.get('x-request-id')).to.match(/^req_/);
    expect(await response.json()).to.deep.equal({
      error: {
        message: 'There is no GET /nothing here; the API is under /v1',
        type: 'not_found_error',
        param: null,
        code: 'not_found',
      },
    });
  });

  it('names the model endpoints for an unknown path below /v1', async () => {
    const response = await get(knowsNothing, '/v1/realtime');
    expect(response.status).to.equal(404);
    expect(await response.json()).to.deep.equal({
      error: {
        message:
          'This gateway does not serve GET /v1/realtime; the model endpoints are /v1/models and those below them',
        type: 'not_found_error',
        param: null,
        code: 'endpoint_not_served',
      },
    });
  });

  for (const path of ['/%zz', '//x', '*', 'http://other.example/x']) {
    it(`answers 404 in the error shape for ${path}`, async () => {
      const server = await listen(createRequestListener(knowsNothing));
      const client = connectRaw(Number(new URL(server.url).port));
      client.write(head('GET', path, { connection: 'close' }));
      expect(await client.ended()).to.match(/^HTTP\/1\.1 404 [\s\S]*\r\n\r\n\{"error":\{.*"code":"not_found"\}\}$/);
      await server.close();
    });
  }

  for (const [what, router] of [
    ['the router answers', (_req, res) => void res.end('answered')],
    ['the path is unknown', knowsNothing],
  ] as [string, Router][]) {
    it(`sends the security headers when ${what}`, async () => {
      const { headers } = await get(router);
      expect(headers.get('x-content-type-options')).to.equal('nosniff');
      expect(headers.get('x-frame-options')).to.equal('SAMEORIGIN');
      expect(headers.get('content-security-policy')).to.match(/default-src 'self'/);
      expect(headers.has('x-powered-by')).to.equal(false);
    });
  }

  for (const [maxAge, sent] of [
    [undefined, null],
    [365 * 86_400_000, 'max-age=31536000'],
    [0, 'max-age=0'],
  ] as const) {
    const given = maxAge === undefined ? 'left out' : `of ${maxAge} ms`;
    it(`sends ${sent ?? 'no'} Strict-Transport-Security with HSTS_MAX_AGE ${given}`, async () => {
      const { headers } = await get(knowsNothing, '/', maxAge);
      expect(headers.get('strict-transport-security')).to.equal(sent);
    });
  }
});
