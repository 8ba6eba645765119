import { expect } from 'chai';
import type { ApiRequest, DataOperation, Reply } from '../../src/http/operation.ts';
import type { Operations } from '../../src/http/router.ts';
import { webhookOperations } from '../../src/webhooks/routes.ts';
import { watchedDatabase } from '../support/commands.ts';
import { valid, webhookService } from './support.ts';

const health = async () => ({
  state: 'idle' as const,
  failing_since: null,
  last_success_at: null,
  last_failure: null,
});

describe('the webhook operations', () => {
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  let call: (operationId: string, given?: Partial<ApiRequest>) => Promise<Reply>;

  before(async () => {
    database = await watchedDatabase();
    const { service } = await webhookService(database.connection);
    const operations: Operations = webhookOperations({ service, health });
    call = (operationId, given = {}) =>
      (operations[operationId] as DataOperation).handle({
        requestId: 'req_1',
        principal: { userId: 'usr_1' },
        params: {},
        query: {},
        headers: {},
        body: undefined,
        rawBody: Buffer.alloc(0),
        signal: new AbortController().signal,
        ...given,
      } as ApiRequest);
  });
  after(() => database.drop());

  it('answer as openapi.yaml says, from creation to deletion, and never with the secret', async () => {
    const created = await call('createWebhook', { body: valid });
    expect(created.status).to.equal(201);
    const { id, created_at } = created.body as { id: string; created_at: string };
    const { url, events } = valid;
    expect(created.body).to.deep.equal({ id, url, events, active: true, created_at });
    expect(new Date(created_at).toISOString()).to.equal(created_at);

    expect(await call('listWebhooks')).to.deep.equal({
      status: 200,
      body: { data: [{ id, url, events, active: true }], has_more: false },
    });
    expect(await call('updateWebhook', { params: { id }, body: { active: false } })).to.deep.equal({
      status: 200,
      body: { id, url, events, active: false, created_at },
    });
    expect(await call('deleteWebhook', { params: { id } })).to.deep.equal({ status: 200, body: { id, deleted: true } });
    expect(await call('listWebhooks')).to.deep.equal({ status: 200, body: { data: [], has_more: false } });
  });

  it('list page by page, with limit and after', async () => {
    const principal = { userId: 'usr_pages' };
    for (let i = 0; i < 3; i += 1) await call('createWebhook', { principal, body: valid });
    const { body } = await call('listWebhooks', { principal, query: { limit: 2 } });
    const { data, has_more } = body as { data: { id: string }[]; has_more: boolean };
    expect(data).to.have.length(2);
    expect(has_more).to.equal(true);
    const rest = await call('listWebhooks', { principal, query: { limit: 2, after: data[1]?.id } });
    expect(rest.body).to.have.property('has_more', false);
    const wrong = await call('listWebhooks', { principal, query: { limit: Number.NaN } }).catch((error) => error);
    expect(wrong).to.include({ code: 'invalid_value', param: 'limit' });
  });

  it('are create, delete, list, retrieve, update and rotate the secret', async () => {
    const { service } = await webhookService(database.connection);
    expect(Object.keys(webhookOperations({ service, health })).sort()).to.deep.equal([
      'createWebhook',
      'deleteWebhook',
      'listWebhooks',
      'retrieveWebhook',
      'rotateWebhookSecret',
      'updateWebhook',
    ]);
  });
});
