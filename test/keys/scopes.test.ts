import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { createModelGateway, type ModelGateway, scopes } from '../../src/index.ts';
import { type LiveGateway, loopbackOptions, newSecretKey, startGateway } from '../support/gateway.ts';
import { freshDatabase } from '../support/mongo.ts';
import { operations } from '../support/spec.ts';
import { json, ScriptedUpstream } from '../support/upstream.ts';

const chat = { model: 'm', messages: [{ role: 'user', content: 'hi' }] };

describe('the scopes of API keys', () => {
  let live: LiveGateway;
  let upstream: ScriptedUpstream;

  before(async () => {
    upstream = await ScriptedUpstream.start();
    // a list of models, and what a chat says at least
    upstream.script = json(200, { object: 'list', data: [{ id: 'm' }, { id: 'other' }], choices: [{}] });
    live = await startGateway({ upstreams: [{ name: 'scripted', baseUrl: upstream.baseUrl }] });
  });
  after(async () => {
    await live.close();
    await upstream.close();
  });

  async function send(key: string, method: string, path: string, body?: unknown) {
    const response = await fetch(live.url + path, {
      method,
      headers: { authorization: `Bearer ${key}`, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape it asks for
    const answer: any = await response.json();
    return { status: response.status, headers: response.headers, body: answer };
  }

  const newKey = async (input: object) => (await live.gateway.keys.create({ userId: 'usr_1', ...input })).key;

  const keys = new Map<string, Promise<string>>();

  /** A key with these scopes: the same for every operation that is tried with them. */
  function keyWith(...granted: readonly string[]): Promise<string> {
    const name = granted.join();
    const key = keys.get(name) ?? newKey({ scopes: granted });
    keys.set(name, key);
    return key;
  }

  for (const { method, path, operation } of operations) {
    const scope = operation['x-scope'] as (typeof scopes)[number];

    it(`keep a key with every scope but ${scope} from ${operation.operationId}, before its body is read`, async () => {
      const key = await keyWith(...scopes.filter((one) => one !== scope));
      const { status, body, headers } = await send(key, method.toUpperCase(), path);
      expect([status, body.error.code]).to.deep.equal([403, 'insufficient_scope']);
      expect(body.error.message).to.contain(scope);
      expect(headers.get('www-authenticate')).to.equal(`Bearer error="insufficient_scope", scope="${scope}"`);
    });

    it(`let a key with ${scope} alone use ${operation.operationId}`, async () => {
      const { status } = await send(await keyWith(scope), method.toUpperCase(), path);
      expect(status).to.not.be.oneOf([401, 403]);
    });
  }

  it('cannot be granted by a key that lacks them', async () => {
    const key = await newKey({ scopes: ['keys', 'models'] });
    const answer = await send(key, 'POST', '/v1/api_keys', { name: '', scopes: ['models', 'admin'] });
    expect([answer.status, answer.body.error.code, answer.body.error.param]).to.deep.equal([
      403,
      'insufficient_scope',
      'scopes[1]',
    ]);
    expect(answer.body.error.message).to.contain('admin');
    expect((await send(key, 'POST', '/v1/api_keys', { name: '', scopes: ['models'] })).status).to.equal(201);
  });

  it('cannot be widened: a key creates no key that may call more models or expires later', async () => {
    const expires_at = new Date(Date.now() + 60_000).toISOString();
    const key = await newKey({ scopes: ['keys'], models: ['m'], expiresAt: new Date(expires_at) });
    const wanted = { name: '', scopes: ['keys'], models: ['m'], expires_at };
    const tries: [object, string][] = [
      [{ ...wanted, models: undefined }, 'model_not_allowed'],
      [{ ...wanted, models: ['m', 'other'] }, 'model_not_allowed'],
      [{ ...wanted, expires_at: undefined }, 'invalid_value'],
      [{ ...wanted, expires_at: new Date(Date.now() + 120_000).toISOString() }, 'invalid_value'],
    ];
    for (const [body, code] of tries) {
      expect((await send(key, 'POST', '/v1/api_keys', body)).body.error.code).to.equal(code);
    }
    expect((await send(key, 'POST', '/v1/api_keys', wanted)).status).to.equal(201);
  });

  it('keep a key from revoking one with more scopes or models, and from revoking no other', async () => {
    const weak = await live.gateway.keys.create({ userId: 'usr_1', scopes: ['keys', 'models'], models: ['m'] });
    const targets = {
      stronger: await live.gateway.keys.create({ userId: 'usr_1', scopes: ['keys', 'models', 'admin'], models: ['m'] }),
      callingMore: await live.gateway.keys.create({ userId: 'usr_1', scopes: ['models'], models: ['m', 'other'] }),
      callingAny: await live.gateway.keys.create({ userId: 'usr_1', scopes: ['models'] }),
    };
    for (const [name, { id, key }] of Object.entries(targets)) {
      const { status, body } = await send(weak.key, 'DELETE', `/v1/api_keys/${id}`);
      const code = name === 'stronger' ? 'insufficient_scope' : 'model_not_allowed';
      expect([status, body.error.code, body.error.param], name).to.deep.equal([403, code, 'id']);
      expect(body.error.message).to.contain(id);
      expect(await live.gateway.keys.authenticate(key)).to.not.equal(null);
    }
    const equal = await live.gateway.keys.create({ userId: 'usr_1', scopes: ['models'], models: ['m'] });
    expect((await send(weak.key, 'DELETE', `/v1/api_keys/${equal.id}`)).status).to.equal(200);
    expect((await send(weak.key, 'DELETE', `/v1/api_keys/${weak.id}`)).status).to.equal(200);
  });

  it('come with the models that a key may call: it cannot call or list any other', async () => {
    const key = await newKey({ models: ['m'] });
    const asked = upstream.requests.length;
    const refused = await send(key, 'POST', '/v1/chat/completions', { ...chat, model: 'other' });
    expect([refused.status, refused.body.error.code]).to.deep.equal([403, 'model_not_allowed']);
    const unnamed = await send(key, 'POST', '/v1/images/generations', { prompt: 'A lighthouse' });
    expect(unnamed.body.error.code).to.equal('model_not_allowed');
    expect(upstream.requests).to.have.length(asked);
    expect((await send(key, 'POST', '/v1/chat/completions', chat)).status).to.equal(200);
    const { body } = await send(key, 'GET', '/v1/models');
    expect(body.data.map(({ id }: { id: string }) => id)).to.deep.equal(['m']);
    expect((await send(key, 'GET', '/v1/models/other')).status).to.equal(404);
  });

  it('are those of an account owner where a new key is given none, and its maker may grant them', async () => {
    const owner = await newKey({ scopes: ['models', 'webhooks', 'keys'] });
    const { status, body } = await send(owner, 'POST', '/v1/api_keys', { name: 'all' });
    expect([status, body.scopes]).to.deep.equal([201, ['models', 'webhooks', 'keys']]);
    expect((await send(body.key, 'GET', '/v1/webhooks')).status).to.equal(200);
    const other = await send(await newKey({ scopes: ['admin'] }), 'POST', '/v1/users/usr_2/api_keys', {
      name: '',
    });
    expect(other.body.scopes).to.deep.equal(['models', 'webhooks', 'keys']);
    const refused = await send(await newKey({ scopes: ['models', 'keys'] }), 'POST', '/v1/api_keys', { name: '' });
    expect([refused.status, refused.body.error.code]).to.deep.equal([403, 'insufficient_scope']);
  });

  it("are those of an account owner when a host's authenticate names none", async () => {
    const hosted = await startGateway({ authenticate: () => ({ userId: 'usr_host' }) });
    expect((await hosted.call('GET', '/v1/webhooks')).status).to.equal(200);
    expect((await hosted.call('GET', '/v1/api_keys')).body).to.deep.equal({ data: [], has_more: false });
    const granting = await hosted.call('POST', '/v1/api_keys', { name: '', scopes: ['events:publish'] });
    expect(granting.body.error.code).to.equal('insufficient_scope');
    await hosted.close();
  });
});

describe('a key that is revoked over HTTP', () => {
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let here: LiveGateway;
  let there: ModelGateway;

  before(async () => {
    database = await freshDatabase();
    const shared = { mongo: database.uri, secretKeys: [newSecretKey()] };
    here = await startGateway(shared);
    there = await createModelGateway({ ...loopbackOptions, ...shared });
  });
  after(async () => {
    await there.close();
    await here.close();
    await database.drop();
  });

  it('is refused in another process within a second, even while it is in constant use there', async () => {
    const { id, key } = await there.keys.create({ userId: 'usr_1' });
    expect(await there.keys.authenticate(key)).to.not.equal(null);
    expect((await here.call('DELETE', `/v1/api_keys/${id}`)).body).to.deep.equal({ id, deleted: true });
    const revoked = performance.now();
    let lastTaken = revoked;
    for (let asked = revoked; (await there.keys.authenticate(key)) !== null; asked = performance.now()) {
      lastTaken = asked;
      // uses the key again
      await sleep(5);
    }
    expect(lastTaken - revoked).to.be.below(1_000);
  });

  it("may be revoked again; another account's key, an unknown and a malformed one are not found", async () => {
    const { id } = await there.keys.create({ userId: 'usr_1' });
    const other = await there.keys.create({ userId: 'usr_2' });
    await here.call('DELETE', `/v1/api_keys/${id}`);
    expect((await here.call('DELETE', `/v1/api_keys/${id}`)).status).to.equal(200);
    for (const strange of [other.id, 'key_00000000000000000000000000', 'key_%00', '__proto__']) {
      const { status, body } = await here.call('DELETE', `/v1/api_keys/${strange}`);
      expect([status, body.error.code]).to.deep.equal([404, 'api_key_not_found']);
    }
    expect(await there.keys.authenticate(other.key)).to.not.equal(null);
  });
});
