import { expect } from 'chai';
import type { AccountSummary } from '../../src/index.ts';
import { watchedDatabase } from '../support/commands.ts';
import { type LiveGateway, startGateway } from '../support/gateway.ts';

const month = new Date().toISOString().slice(0, 7);
/** More keys than one read takes for a page of one. */
const manyKeys = 20;

function perUser({ userId }: { readonly userId: string }) {
  if (userId === 'b_é') throw new Error('this account has no plan');
  return { requestsPerMinute: userId.length };
}

/** What is stored of the use of an account on a day and in its month. */
function periodsOf({ userId }: { userId: string }, day: string) {
  const none = { requests: 0, inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, reasoningTokens: 0, images: 0 };
  return (
    [
      ['daily', day],
      ['monthly', day.slice(0, 7)],
    ] as const
  ).map(([period, start]) => {
    const _id = JSON.stringify([userId, period, start]);
    return { ...none, seconds: 0, characters: 0, _id, userId, period, start };
  });
}

describe('The accounts that an operator sees', () => {
  let live: LiveGateway;
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  let webhookId: string;

  before(async () => {
    database = await watchedDatabase();
    live = await startGateway({
      mongo: database.connection,
      credits: { prices: { '*': {} }, initialBalance: 5 },
      limits: { perUser, perKey: { tokensPerMinute: 9 } },
    });
    const { gateway } = live;
    for (let i = 0; i < manyKeys; i += 1) await gateway.keys.create({ userId: 'a_keys' });
    const revoked = await gateway.keys.create({ userId: 'a_keys' });
    await gateway.keys.revoke(revoked.id);
    await gateway.keys.create({ userId: 'a_keys', expiresAt: new Date(Date.now() + 50) });
    const webhook = { url: 'https://example.com/?a', events: ['credits.low'], headers: { authorization: 'canary-1' } };
    webhookId = (await gateway.webhooks.create('a_webhook', { ...webhook, secret: 'canary-d8f3Kq9vLx2Zt7Wb' })).id;
    const periods = ['a_keys', 'a_used', 'b_é', 'b_\u{ff61}', 'b_\u{1f600}'].flatMap((userId) =>
      periodsOf({ userId }, `${month}-02`).map((period) => ({
        ...period,
        requests: 2,
        microCredits: 3_000_000,
      })),
    );
    const [before] = periodsOf({ userId: 'a_before' }, '2020-01-01').slice(-1);
    await database.connection
      .collection<{ _id: string }>('gateway_usage_periods')
      .insertMany([...periods, before as (typeof periods)[number]]);
    await gateway.credits?.topUp({ userId: 'a_used', credits: 2, reference: 'r' });
  });
  after(async () => {
    await live.close();
    await database.drop();
  });

  async function page(query: string) {
    const { status, body } = await live.call('GET', `/v1/admin/accounts${query}`);
    expect(status, JSON.stringify(body)).to.equal(200);
    return { ids: body.data.map(({ user_id }: { user_id: string }) => user_id), ...body };
  }

  it('are those with a key, a webhook or usage this month, sorted by the bytes of their ids', async () => {
    const { ids, has_more } = await page('');
    expect(ids).to.deep.equal(['a_keys', 'a_used', 'a_webhook', 'b_é', 'b_\u{ff61}', 'b_\u{1f600}', 'usr_1']);
    expect(has_more).to.equal(false);
  });

  for (const limit of [1, 2, 3]) {
    it(`are all listed, ${limit} per page`, async () => {
      const seen: string[] = [];
      let more = true;
      while (more) {
        const after = seen.length > 0 ? `&after=${encodeURIComponent(seen.at(-1) ?? '')}` : '';
        const { ids, has_more } = await page(`?limit=${limit}${after}`);
        expect(ids).to.have.length.within(1, limit);
        seen.push(...ids);
        more = has_more;
      }
      expect(seen).to.deep.equal((await page('')).ids);
    });
  }

  it('can be filtered by the prefix of their ids, page by page too', async () => {
    expect((await page('?prefix=a_')).ids).to.deep.equal(['a_keys', 'a_used', 'a_webhook']);
    expect((await page('?prefix=a_&after=a_used')).ids).to.deep.equal(['a_webhook']);
    expect((await page('?prefix=b_&after=a_used')).ids).to.have.length(3);
    expect((await page('?prefix=a_&after=b_')).ids).to.deep.equal([]);
  });

  it('show their working keys, webhooks, usage this month and credits left', async () => {
    const { data } = await page('?prefix=a_');
    const none = { requests: 0, input_tokens: 0, output_tokens: 0 };
    const used = { ...none, requests: 2, credits: 3 };
    const noWebhooks = { total: 0, failing: 0, disabled: 0 };
    expect(data).to.deep.equal([
      { user_id: 'a_keys', api_keys: { working: manyKeys }, webhooks: noWebhooks, usage: used, credits_remaining: 5 },
      { user_id: 'a_used', api_keys: { working: 0 }, webhooks: noWebhooks, usage: used, credits_remaining: 7 },
      {
        user_id: 'a_webhook',
        api_keys: { working: 0 },
        webhooks: { ...noWebhooks, total: 1 },
        usage: none,
        credits_remaining: 5,
      },
    ]);
  });

  it('show their keys, webhooks, limits, budgets and credits one by one, and no secret', async () => {
    const { body } = await live.call('GET', '/v1/admin/accounts/a_webhook');
    expect(body.account).to.deep.equal((await page('?prefix=a_webhook')).data[0]);
    expect(body.webhooks).to.have.length(1);
    expect(body.webhooks[0]).to.include({ id: webhookId, user_id: 'a_webhook', active: true, disabled: null });
    expect(body.webhooks[0].health).to.include({ state: 'idle', failing_since: null });
    expect(body.rate_limits).to.deep.equal({
      per_user: { requests_per_minute: 9, tokens_per_minute: null },
      per_user_is_unknown: false,
      per_key: { requests_per_minute: null, tokens_per_minute: 9 },
      per_key_is_unknown: false,
    });
    expect(body.budgets).to.deep.equal([]);
    expect(body.credits).to.deep.equal({ credits_remaining: 5, low_threshold: 0 });
    const { body: keys } = await live.call('GET', '/v1/admin/accounts/a_keys');
    expect(keys.api_keys.data).to.have.length(manyKeys + 2);
    expect(JSON.stringify([body, keys])).to.not.match(/canary|hash|sealedWith|emg_/);
  });

  it("are shown without limits when the host's function throws", async () => {
    const { status, body } = await live.call('GET', `/v1/admin/accounts/${encodeURIComponent('b_é')}`);
    expect(status).to.equal(200);
    expect(body.rate_limits).to.include({ per_user: null, per_user_is_unknown: true });
    expect(body.account.user_id).to.equal('b_é');
  });

  it('are empty when their id is unknown', async () => {
    const { status, body } = await live.call('GET', '/v1/admin/accounts/nobody');
    expect(status).to.equal(200);
    expect(body).to.deep.include({ webhooks: [], budgets: [], api_keys: { data: [], has_more: false } });
  });

  it('take a few index keys per page, however many accounts there are', async () => {
    database.forget();
    await page('?limit=1&after=a_k');
    const reads = ['keys', 'webhooks', 'usage_periods'].flatMap((name) =>
      database.commandsTo(`gateway_${name}`).filter(({ command }) => command.sort),
    );
    expect(reads).to.have.length.within(3, 5);
    for (const { command } of reads) {
      const { find, filter, sort, hint, limit, projection } = command;
      const explained = await database.connection.getClient().db(database.connection.name).command({
        explain: { find, filter, sort, hint, limit, projection },
        verbosity: 'executionStats',
      });
      expect(explained.executionStats.totalKeysExamined, String(find)).to.be.at.most(8);
      expect(JSON.stringify(explained.queryPlanner.winningPlan)).to.not.match(/COLLSCAN|"SORT"/);
    }
  });

  it('are the same from code', async () => {
    const { accounts, hasMore } = await live.gateway.admin.accounts({ limit: 2, prefix: 'a_' });
    expect([accounts.map(({ userId }: AccountSummary) => userId), hasMore]).to.deep.equal([['a_keys', 'a_used'], true]);
    expect((await live.gateway.admin.account('a_used')).account.usage).to.deep.include({ requests: 2, credits: 3 });
    const error = await live.gateway.admin.accounts({ limit: 0 }).catch((thrown: unknown) => thrown);
    expect(error).to.include({ code: 'invalid_value', param: 'limit' });
  });

  it('are visible only to a key with the scope admin', async () => {
    const { key } = await live.gateway.keys.create({ userId: 'usr_1' });
    for (const path of ['/v1/admin/accounts', '/v1/admin/accounts/a_keys']) {
      const { status } = await fetch(live.url + path, { headers: { authorization: `Bearer ${key}` } });
      expect([path, status]).to.deep.equal([path, 403]);
    }
  });
});
