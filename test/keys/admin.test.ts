import { expect } from 'chai';
import type { Scope } from '../../src/index.ts';
import { type LiveGateway, startGateway } from '../support/gateway.ts';

const everything = { prices: { '*': { input: 1 } } };

describe('a key with the scope admin', () => {
  let live: LiveGateway;
  before(async () => {
    live = await startGateway({ credits: everything });
  });
  after(() => live.close());

  async function as(scopes: readonly Scope[], method: string, path: string, body?: object, headers = {}) {
    const { key } = await live.gateway.keys.create({ userId: 'usr_operator', scopes });
    const response = await fetch(live.url + path, {
      method,
      headers: { authorization: `Bearer ${key}`, ...(body && { 'content-type': 'application/json' }), ...headers },
      ...(body && { body: JSON.stringify(body) }),
    });
    // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape it asks for
    const answer: any = await response.json();
    return { status: response.status, body: answer };
  }

  const keysOf = (userId: string) => `/v1/users/${userId}/api_keys`;
  const wanted = { name: 'chat', scopes: ['models'] };

  it('creates, lists and revokes the keys of any account', async () => {
    const made = await as(['admin'], 'POST', keysOf('usr_7'), wanted);
    expect(made.status).to.equal(201);
    const principal = await live.gateway.keys.authenticate(made.body.key);
    expect(principal).to.include({ userId: 'usr_7' });

    const { body } = await as(['admin'], 'GET', `${keysOf('usr_7')}?limit=5`);
    expect(body.data.map(({ id }: { id: string }) => id)).to.deep.equal([made.body.id]);
    const wrong = await as(['admin'], 'DELETE', `${keysOf('usr_8')}/${made.body.id}`);
    expect([wrong.status, wrong.body.error.code]).to.deep.equal([404, 'api_key_not_found']);
    await as(['admin'], 'DELETE', `${keysOf('usr_7')}/${made.body.id}`);
    expect(await live.gateway.keys.authenticate(made.body.key)).to.equal(null);
  });

  it('grants the scopes that an account owner may have, and beyond those only its own', async () => {
    const owned = { name: '', scopes: ['models', 'webhooks', 'keys'] };
    expect((await as(['admin'], 'POST', keysOf('usr_7'), owned)).status).to.equal(201);
    const publishing = { name: '', scopes: ['events:publish'] };
    const { status, body } = await as(['admin'], 'POST', keysOf('usr_7'), publishing);
    expect([status, body.error.code, body.error.param]).to.deep.equal([403, 'insufficient_scope', 'scopes[0]']);
    expect((await as(['admin', 'events:publish'], 'POST', keysOf('usr_7'), publishing)).status).to.equal(201);
  });

  it('accepts any URL-encoded user id, and refuses what is not one', async () => {
    const strange = encodeURIComponent('org/7 ü');
    const { body } = await as(['admin'], 'POST', keysOf(strange), wanted);
    expect(await live.gateway.keys.authenticate(body.key)).to.include({ userId: 'org/7 ü' });
    for (const bad of ['%00', 'x'.repeat(257), '%ED%A0%80']) {
      const answer = await as(['admin'], 'GET', keysOf(bad));
      expect([answer.status, answer.body.error.code], bad).to.deep.equal([400, 'invalid_value']);
      expect(answer.body.error.param, bad).to.equal('user_id');
    }
  });

  it('gives credits to any account, once for each idempotency key', async () => {
    const topUp = (credits: number, key?: string) =>
      as(['admin'], 'POST', '/v1/credits/top_ups', { user_id: 'usr_7', credits }, key && { 'idempotency-key': key });
    const first = await topUp(0.5, 'welcome');
    expect([first.status, first.body.credits_remaining, first.body.idempotency_key]).to.deep.equal([
      201,
      0.5,
      'welcome',
    ]);
    expect((await topUp(0.5, 'welcome')).body).to.deep.equal(first.body);
    const other = await topUp(5, 'welcome');
    expect([other.status, other.body.error.code]).to.deep.equal([409, 'idempotency_conflict']);
    const unnamed = await topUp(2);
    expect(unnamed.body.credits_remaining).to.equal(2.5);
    expect(unnamed.body.idempotency_key).to.match(/^[0-9a-f-]{36}$/);
  });

  for (const credits of [0, -1, 1e10, '5', null]) {
    it(`cannot give ${JSON.stringify(credits)} credits`, async () => {
      const { status, body } = await as(['admin'], 'POST', '/v1/credits/top_ups', { user_id: 'usr_7', credits });
      expect([status, body.error.param]).to.deep.equal([400, 'credits']);
    });
  }

  it('is needed for all of this: a key with every other scope gets 403', async () => {
    const others: Scope[] = ['models', 'webhooks', 'keys', 'events:publish'];
    for (const [method, path, body] of [
      ['POST', keysOf('usr_operator'), wanted],
      ['GET', keysOf('usr_operator')],
      ['DELETE', `${keysOf('usr_operator')}/key_00000000000000000000000000`],
      ['POST', '/v1/credits/top_ups', { user_id: 'usr_operator', credits: 1 }],
    ] as const) {
      const answer = await as(others, method, path, body);
      expect([answer.status, answer.body.error.code], `${method} ${path}`).to.deep.equal([403, 'insufficient_scope']);
      expect(answer.body.error.message).to.contain('admin');
    }
  });

  it('cannot publish, list webhooks or keys, or list models, since no scope includes another', async () => {
    const depleted = { user_id: 'usr_7', credits_remaining: 0 };
    const event = { type: 'credits.depleted', user_id: 'usr_7', data: depleted };
    for (const [method, path, body] of [
      ['POST', '/v1/events', event],
      ['GET', '/v1/webhooks'],
      ['GET', '/v1/models'],
      ['GET', '/v1/api_keys'],
    ] as const) {
      expect((await as(['admin'], method, path, body)).status, `${method} ${path}`).to.equal(403);
    }
  });
});
