import { isDeepStrictEqual } from 'node:util';
import { expect } from 'chai';
import type OpenAI from 'openai';
import type { APIError } from 'openai';
import type { Quota } from '../../../src/index.ts';
import { type LiveAccount, startAccount } from '../../support/account.ts';
import { eventually } from '../../support/until.ts';

const messages = [{ role: 'user' as const, content: 'Hi' }];

describe('budgets over HTTP', () => {
  let account: LiveAccount;

  before(async () => {
    const perUser = (userId: string): Quota | undefined =>
      userId === 'usr_quota' ? { unit: 'requests', daily: 2 } : undefined;
    account = await startAccount(
      { prompt_tokens: 60, completion_tokens: 40, total_tokens: 100 },
      {
        quotas: { perUser, enforce: true },
        // a credit a call
        credits: { prices: { '*': { input: 10_000, output: 10_000 } }, initialBalance: 1_000 },
      },
    );
  });
  after(() => account?.close());

  const clientOf = (apiKey: string) => account.client.withOptions({ apiKey });
  const ask = (client: OpenAI) => client.chat.completions.create({ model: 'm', messages, max_tokens: 1 });
  const post = (path: string, body: object) => account.live.call('POST', path, body);

  async function newKey(budgets: readonly object[], scopes = ['models']) {
    const { status, body } = await post('/v1/api_keys', { name: 'limited', scopes, budgets });
    expect(status, JSON.stringify(body)).to.equal(201);
    return body;
  }

  /** Calls until it is refused, and tells how; the upstream is not asked then. */
  async function refusal(client: OpenAI): Promise<APIError> {
    let before = 0;
    const refused = async () => {
      before = account.upstream.requests.length;
      return (await ask(client).catch((error) => error)) as APIError;
    };
    const error = await eventually(refused, ({ status }) => status === 429);
    expect(account.upstream.requests.length, 'calls of the upstream').to.equal(before);
    expect(error).to.include({ status: 429, code: 'insufficient_quota', type: 'insufficient_quota' });
    expect(error.headers?.get('x-should-retry')).to.equal('false');
    return error;
  }

  async function listed(id: string) {
    const { body } = await account.live.call('GET', '/v1/api_keys');
    return body.data.find((key: { id: string }) => key.id === id);
  }

  it('refuse an OpenAI client once its account has used up its quota, and let other accounts call', async () => {
    const { key } = await account.live.gateway.keys.create({ userId: 'usr_quota' });
    const { message } = await refusal(clientOf(key));
    expect(message).to.match(
      /This account has used up its daily quota of 2 requests \(\d+ used\); it resets at \S+T00:00/,
    );
    await ask(account.client);
  });

  it('refuse a key that has used up its budget, and no other key; the list of keys shows what was used', async () => {
    const made = await newKey([{ period: 'month', tokens: 150 }]);
    const [fresh] = made.budgets;
    expect(fresh).to.deep.include({ period: 'month', tokens: 150, used: { tokens: 0, requests: 0, credits: 0 } });
    const { message } = await refusal(clientOf(made.key));
    expect(message).to.contain('This API key has used up its monthly budget of 150 tokens (');
    expect(message).to.contain(`it resets at ${fresh.resets_at}`);
    const now = new Date();
    expect(fresh.resets_at).to.equal(new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1)).toISOString());

    const { used } = (await listed(made.id)).budgets[0];
    expect(used.requests).to.be.at.least(2);
    expect(used).to.deep.equal({ tokens: 100 * used.requests, requests: used.requests, credits: used.requests });
    await ask(account.client);
  });

  it('apply at once when they are changed or removed', async () => {
    const { id, key } = await newKey([{ period: 'total', requests: 1 }]);
    const client = clientOf(key);
    await refusal(client);
    const path = `/v1/api_keys/${id}`;
    const raised = await account.live.call('PATCH', path, {
      budgets: [
        { period: 'month', credits: 1_000.5 },
        { period: 'day', requests: 100 },
      ],
    });
    expect(raised.status).to.equal(200);
    expect((await listed(id)).budgets[1]).to.include({ period: 'month', credits: 1_000.5 });
    expect(raised.body.budgets.map(({ period }: { period: string }) => period)).to.deep.equal(['day', 'month']);
    await ask(client);
    const removed = await account.live.call('PATCH', path, { budgets: [] });
    expect(removed.body.budgets).to.deep.equal([]);
    await ask(client);
  });

  it('cannot be bypassed: a key with a budget may not create keys for model calls or change budgets', async () => {
    const { id, key } = await newKey([{ period: 'total', requests: 1 }], ['models', 'keys', 'admin']);
    const as = (method: string, path: string, body: object) =>
      fetch(account.live.url + path, {
        method,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
    for (const [answer, param] of [
      [await as('POST', '/v1/api_keys', { name: '', scopes: ['models'] }), 'scopes'],
      [await as('POST', '/v1/api_keys', { name: '', scopes: ['admin'] }), 'scopes'],
      [await as('POST', '/v1/users/usr_1/api_keys', { name: '', scopes: ['keys', 'admin'] }), 'scopes'],
      [await as('PATCH', `/v1/api_keys/${id}`, { budgets: [] }), 'budgets'],
    ] as const) {
      expect(answer.status).to.equal(403);
      const { error } = (await answer.json()) as { error: object };
      expect(error).to.include({ code: 'budget_not_allowed', param });
    }
    expect((await as('POST', '/v1/api_keys', { name: '', scopes: ['keys'] })).status).to.equal(201);
  });

  it('cannot be changed by a key with fewer scopes than the changed key, or by another account', async () => {
    const weak = await newKey([], ['keys']);
    const strong = await newKey([]);
    const change = async (id: string) => {
      const response = await fetch(`${account.live.url}/v1/api_keys/${id}`, {
        method: 'PATCH',
        headers: { authorization: `Bearer ${weak.key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ budgets: [{ period: 'total', requests: 1 }] }),
      });
      const { error } = (await response.json()) as { error: { code: string } };
      return [response.status, error.code];
    };
    expect(await change(strong.id)).to.deep.equal([403, 'insufficient_scope']);
    const other = await account.live.gateway.keys.create({ userId: 'usr_2' });
    expect(await change(other.id)).to.deep.equal([404, 'api_key_not_found']);
  });

  it('of an account are set by the operator, shown to the account, and shared by all its keys', async () => {
    const first = await account.live.gateway.keys.create({ userId: 'usr_5' });
    const second = await account.live.gateway.keys.create({ userId: 'usr_5' });
    const path = '/v1/users/usr_5/budgets';
    await ask(clientOf(first.key));
    const set = await account.live.call('PUT', path, { budgets: [{ period: 'total', tokens: 200 }] });
    expect([set.status, set.body.data[0].tokens, set.body.data[0].resets_at]).to.deep.equal([200, 200, null]);
    const { message } = await refusal(clientOf(first.key));
    expect(message).to.match(
      /This account has used up its total budget of 200 tokens \(\d+ used\); it does not reset$/,
    );
    await refusal(clientOf(second.key));

    const own = async () => {
      const headers = { authorization: `Bearer ${second.key}` };
      const response = await fetch(`${account.live.url}/v1/budgets`, { headers });
      return ((await response.json()) as { data: { used: { requests: number } }[] }).data;
    };
    const toOperator = async () => (await account.live.call('GET', path)).body.data;
    // calls that have ended may be counted between the two reads
    const [shown] = await eventually(
      async () => [await own(), await toOperator()] as const,
      ([toAccount, same]) => isDeepStrictEqual(toAccount, same),
    );
    expect(shown[0]).to.include({ period: 'total', tokens: 200 });
    expect(shown[0]?.used.requests).to.be.at.least(2);
    const { body: removed } = await account.live.call('PUT', path, { budgets: [] });
    expect(removed).to.deep.equal({ data: [] });
    await eventually(() => ask(clientOf(first.key)).catch(() => null), Boolean);
    expect(await own()).to.deep.equal([]);
    expect(await account.live.gateway.budgets?.get('usr_unknown')).to.deep.equal([]);
  });

  it('of any key can be set by the operator', async () => {
    const { id } = await account.live.gateway.keys.create({ userId: 'usr_3' });
    const budgets = [{ period: 'day', requests: 5 }];
    const { status, body } = await account.live.call('PATCH', `/v1/users/usr_3/api_keys/${id}`, { budgets });
    expect(status).to.equal(200);
    expect(body.budgets[0]).to.include(budgets[0]);
    const strange = await account.live.call('PATCH', `/v1/users/usr_4/api_keys/${id}`, { budgets });
    expect([strange.status, strange.body.error.code]).to.deep.equal([404, 'api_key_not_found']);
    const key = await account.live.gateway.keys.update(id, { budgets: [{ period: 'total', credits: 0.5 }] });
    expect(key?.budgets).to.deep.equal([
      { period: 'total', credits: 0.5, used: { tokens: 0, requests: 0, credits: 0 }, resetsAt: null },
    ]);
  });

  for (const [budgets, code, param] of [
    [[{ period: 'day' }], 'invalid_value', 'budgets[0]'],
    [[{ tokens: 5 }], 'missing_required_parameter', 'budgets[0].period'],
    [[{ period: 'week', tokens: 5 }], 'invalid_value', 'budgets[0].period'],
    [[{ period: 'day', tokens: 0 }], 'invalid_value', 'budgets[0].tokens'],
    [[{ period: 'day', requests: 1.5 }], 'invalid_type', 'budgets[0].requests'],
    [[{ period: 'day', credits: 1e10 }], 'invalid_value', 'budgets[0].credits'],
    [[{ period: 'day', dollars: 1 }], 'unknown_parameter', 'budgets[0].dollars'],
    [
      [
        { period: 'day', tokens: 1 },
        { period: 'day', requests: 1 },
      ],
      'invalid_value',
      'budgets[1].period',
    ],
    ['day', 'invalid_type', 'budgets'],
  ] as const) {
    it(`are refused as ${JSON.stringify(budgets)}, over HTTP and from code`, async () => {
      const { status, body } = await post('/v1/api_keys', { name: '', scopes: ['models'], budgets });
      expect([status, body.error.code, body.error.param]).to.deep.equal([400, code, param]);
      const input = { userId: 'usr_1', budgets: budgets as never };
      const error = await account.live.gateway.keys.create(input).catch((thrown) => thrown);
      expect([error.code, error.param]).to.deep.equal(['invalid_value', param]);
    });
  }
});
