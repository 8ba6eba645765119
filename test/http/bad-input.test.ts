import { expect } from 'chai';
import request, { type Test } from 'supertest';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { ids, queries } from './bad-input/ids-and-queries.ts';
import { models } from './bad-input/models.ts';
import { credentials, json, methods, sizesAndTypes } from './bad-input/requests.ts';
import { goodWebhook, type Sent, webhooks } from './bad-input/row.ts';
import { fields, patches, urls } from './bad-input/webhooks.ts';

describe('bad input', () => {
  let live: LiveGateway;

  before(async () => {
    live = await startGateway({
      allowHttp: false,
      allowPrivateNetworks: [],
      limits: { modelBodyBytes: 300_000, writesPerMinute: 100_000, readsPerMinute: 100_000 },
    });
  });
  after(() => live.close());

  function send(target: string, { body, headers }: Sent): Test {
    const [method = '', path = ''] = target.split(' ');
    const call = request(live.url)[method.toLowerCase() as 'get'](path).set('authorization', `Bearer ${live.key}`);
    const bytes = typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
    if (bytes !== undefined)
      call
        .set('content-type', 'application/json')
        .serialize((sent) => sent)
        .send(bytes as never);
    return call.set({ ...headers } as Record<string, string>);
  }

  for (const [group, rows] of Object.entries({
    credentials,
    methods,
    json,
    'sizes and types': sizesAndTypes,
    'fields of a webhook': fields,
    'urls of a webhook': urls,
    'changes of a webhook': patches,
    ids,
    queries,
    'model calls': models,
  })) {
    describe(group, () => {
      for (const [what, target, sent, status, code, param = null] of rows) {
        it(`${target.slice(0, 60)} with ${what} gets ${status} ${code}${param === null ? '' : ` for ${param}`}`, async () => {
          const answer = await send(target, sent);
          const { error } = answer.body;
          expect({ status: answer.status, code: error.code, param: error.param }).to.deep.equal({
            status,
            code,
            param,
          });
          expect(answer.body).to.have.all.keys('error');
          expect(error).to.have.all.keys('message', 'type', 'param', 'code');
          expect(error.message)
            .to.match(/^\S.*\S$/s)
            .and.not.match(/must NOT|openapi|ajv|\/body|instancePath|undefined/);
          expect(answer.headers['content-type']).to.equal('application/json');
          expect(answer.headers).to.have.property('x-request-id');
        });
      }
    });
  }

  it("treats another account's webhook like an unknown one", async () => {
    const { key } = await live.gateway.keys.create({ userId: 'usr_2' });
    const created = await send(webhooks, { body: goodWebhook, headers: { authorization: `Bearer ${key}` } });
    expect(created.status).to.equal(201);
    for (const [method, body] of [
      ['PATCH', { active: false }],
      ['DELETE', undefined],
      ['GET', undefined],
    ] as const) {
      const { status, body: answer } = await send(`${method} /v1/webhooks/${created.body.id}`, { body });
      expect([status, answer.error.code]).to.deep.equal([404, 'webhook_not_found']);
    }
  });

  it('stores nothing', async () => {
    expect((await send('GET /v1/webhooks', {})).body).to.deep.equal({ data: [], has_more: false });
  });
});
