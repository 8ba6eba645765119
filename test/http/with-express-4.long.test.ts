import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { expect } from 'chai';
import { WireClient } from '../gateway/mounting/in-front/exchange.ts';
import { goodKey } from './fake-edge.ts';

const table: [method: string, path: string, status: number, holds: string, body?: string][] = [
  ['GET', '/v1/webhooks?limit=3', 200, '"query":{"limit":3}'],
  ['GET', '/v1/webhooks/', 200, '"params":{}'],
  ['HEAD', '/v1/webhooks', 200, ''],
  ['GET', '/v1/webhooks/wh%2F1', 200, '"params":{"id":"wh/1"}'],
  ['GET', '/v1/models/meta/llama-3', 200, '"params":{"model":"meta/llama-3"}'],
  ['GET', '/v1/webhooks?limit=0', 400, '"param":"limit"'],
  ['GET', '/v1/deliveries?since=2026-01-01T00:00:00Z', 200, '"since":"2026-01-01T00:00:00Z"'],
  ['POST', '/v1/webhooks', 400, '"param":"url"', '{"events":["credits.low"]}'],
  ['POST', '/v1/embeddings', 200, '"model":"m"', '{"model":"m","input":"x"}'],
  ['POST', '/v1/embeddings', 400, '"param":"model"', '{"input":"x"}'],
  ['PUT', '/v1/webhooks', 405, '"code":"method_not_allowed"'],
  ['GET', '/v1/webhooks/%zz', 400, '"param":"id"'],
  ['GET', '/v1/models/%zz', 400, '"param":"model"'],
  ['GET', '/V1/webhooks', 299, 'of the host'],
  ['GET', '/v1/nothing', 299, 'of the host'],
  ['OPTIONS', '/v1/webhooks', 299, ''],
];

for (const prefix of ['', '/api/llm']) {
  describe(`the router of a host that has Express 4, ${prefix ? `below ${prefix}` : 'at the root'}`, () => {
    let host: ChildProcess;
    let client: WireClient;

    before(async () => {
      host = fork(new URL('with-express-4.ts', import.meta.url), [prefix || '/'], { execArgv: ['--import', 'tsx'] });
      const [port] = await once(host, 'message');
      client = new WireClient(port);
    });
    after(() => {
      client?.close();
      host.kill();
    });

    for (const [method, path, status, holds, body] of table) {
      it(`answers ${method} ${path} with ${status}${body ? ` to ${body}` : ''}`, async () => {
        const sent =
          body === undefined ? [] : ['content-type', 'application/json', 'content-length', String(body.length)];
        const headers = ['host', 'localhost', 'authorization', `Bearer ${goodKey}`, ...sent];
        const answer = await client.send({ method, target: prefix + path, headers, ...(body && { body }) });
        expect(answer.status, answer.body.toString()).to.equal(status);
        expect(answer.body.toString()).to.include(holds);
      });
    }

    it('is a router of Express 4', async () => {
      const { body } = await client.send({ method: 'GET', target: '/', headers: ['host', 'localhost'] });
      expect(body.toString()).to.equal('of the host, in Express 4: true');
    });
  });
}
