import { expect } from 'chai';
import { watchedDatabase } from '../support/commands.ts';
import { type LiveGateway, startGateway } from '../support/gateway.ts';
import { newId } from '../support/ids.ts';
import { until } from '../support/until.ts';
import { json, ScriptedUpstream } from '../support/upstream.ts';

const minute = 60_000;
const subscription = { url: 'https://example.com', events: ['credits.low'], headers: { authorization: 'canary-1' } };
const hourOf = (moment: number) => new Date(Math.floor(moment / 3_600_000) * 3_600_000);

describe('The problems that an operator sees', () => {
  let live: LiveGateway;
  let database: Awaited<ReturnType<typeof watchedDatabase>>;
  let upstream: ScriptedUpstream;
  const made: string[] = [];

  const stored = (name: string) =>
    database.connection.collection<Record<string, unknown> & { _id: string }>(`gateway_${name}`);

  before(async () => {
    database = await watchedDatabase();
    upstream = await ScriptedUpstream.start();
    upstream.script = json(200, { choices: [{}], usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } });
    live = await startGateway({
      mongo: database.connection,
      upstreams: [{ name: 'one', baseUrl: upstream.baseUrl, maskErrors: true }],
    });
    for (let i = 0; i < 8; i += 1) {
      const webhook = await live.gateway.webhooks.create(`usr_${i % 3}`, {
        ...subscription,
        secret: 'canary-d8f3Kq9vLx2',
      });
      made.push(webhook.id);
    }
    const now = Date.now();
    const lastFailure = { at: new Date(now), deliveryId: 'dlv_1', status: 500, code: 'http_500' };
    const failingSince = new Date(now - 10 * minute);
    const failing = {
      failures: 3,
      failingSince,
      reportedFailingSince: failingSince,
      lastFailure,
      updatedAt: new Date(now),
    };
    // the first was deleted, the second and fourth were disabled, the third has only begun to fail
    await live.gateway.webhooks.remove('usr_0', made[0] ?? '');
    const webhooks = stored('webhooks');
    const disabled = { at: new Date(now), reason: 'failing' as const };
    await webhooks.updateMany({ _id: { $in: [made[1] ?? '', made[3] ?? ''] } }, { $set: { active: false, disabled } });
    await stored('health').insertMany([
      ...[0, 1, 4, 5, 6].map((i) => ({ _id: String(made[i]), ...failing })),
      { _id: String(made[2]), failures: 1, failingSince, lastFailure, updatedAt: new Date(now) },
    ]);
  });
  after(async () => {
    await live.close();
    await upstream.close();
    await database.drop();
  });

  async function get(path: string) {
    const { status, body } = await live.call('GET', path);
    expect(status, JSON.stringify(body)).to.equal(200);
    return body;
  }
  const idsIn = ({ data }: { data: { id: string }[] }) => data.map(({ id }) => id);

  it('include the active webhooks that fail, page by page', async () => {
    const all = await get('/v1/admin/webhooks');
    expect(idsIn(all)).to.deep.equal([made[4], made[5], made[6]]);
    expect(all.data[0]).to.include({ user_id: 'usr_1', active: true });
    expect(all.data[0].health).to.deep.include({ state: 'failing' });
    expect(all.data[0].health.last_failure).to.include({ code: 'http_500', status: 500 });
    expect(JSON.stringify(all)).to.not.match(/canary|sealed/);
    const first = await get('/v1/admin/webhooks?state=failing&limit=2');
    expect([idsIn(first), first.has_more]).to.deep.equal([[made[4], made[5]], true]);
    const second = await get(`/v1/admin/webhooks?limit=2&after=${made[5]}`);
    expect([idsIn(second), second.has_more]).to.deep.equal([[made[6]], false]);
  });

  it('skip a deleted webhook once, and then drop its failure mark', async () => {
    const marked = () =>
      stored('health')
        .find({ reportedFailingSince: { $exists: true } })
        .sort({ _id: 1 })
        .toArray();
    await until(async () => (await marked()).length === 4);
    expect((await marked()).map(({ _id }) => _id)).to.deep.equal([made[1], made[4], made[5], made[6]]);
  });

  it('include the disabled webhooks, page by page', async () => {
    const first = await get('/v1/admin/webhooks?state=disabled&limit=1');
    expect([idsIn(first), first.has_more]).to.deep.equal([[made[1]], true]);
    expect(first.data[0].disabled).to.include({ reason: 'failing' });
    expect(idsIn(await get(`/v1/admin/webhooks?state=disabled&after=${made[1]}`))).to.deep.equal([made[3]]);
  });

  it('are counted per account', async () => {
    const { data } = await get('/v1/admin/accounts?prefix=usr_');
    const counts = Object.fromEntries(data.map(({ user_id, webhooks }: Record<string, never>) => [user_id, webhooks]));
    expect(counts).to.deep.equal({
      usr_0: { total: 2, failing: 1, disabled: 1 },
      usr_1: { total: 3, failing: 1, disabled: 1 },
      usr_2: { total: 2, failing: 1, disabled: 0 },
    });
  });

  it('include the refused requests, by hour, account and code', async () => {
    const hour = hourOf(Date.now()).getTime();
    // what the provider refuses, the gateway has not refused
    const answer = upstream.script;
    upstream.script = json(429, {}, { 'retry-after-ms': '1' });
    const limited = await live.call('POST', '/v1/chat/completions', {
      model: 'm',
      messages: [{ role: 'user', content: 'Hi' }],
    });
    expect(limited.body.error.code).to.equal('upstream_rate_limited');
    upstream.script = answer;
    for (let i = 0; i < 3; i += 1) await live.call('GET', '/v1/webhooks/wh_00000000000000000000000000');
    await live.call('GET', '/v1/deliveries?limit=0');
    await fetch(`${live.url}/v1/models`);
    const ofUser = async () => (await get('/v1/admin/refusals?user_id=usr_1&hours=2')).data;
    await until(async () => (await ofUser()).length === 2);
    // these are written by themselves
    const isMissingKey = ({ code }: { code: string }) => code === 'missing_api_key';
    await until(async () => (await get('/v1/admin/refusals')).data.some(isMissingKey));
    await stored('refusals').insertMany([
      { _id: 'earlier', hour: new Date(hour - 5 * 3_600_000), userId: 'usr_1', counts: { webhook_not_found: 4 } },
      { _id: 'before', hour: new Date(hour - 24 * 3_600_000), userId: 'usr_1', counts: { webhook_not_found: 50 } },
    ]);
    const lines = (await ofUser()).map(({ user_id, code, count }: Record<string, never>) => [user_id, code, count]);
    expect(lines).to.deep.equal([
      ['usr_1', 'webhook_not_found', 3],
      ['usr_1', 'invalid_value', 1],
    ]);
    const all = await get('/v1/admin/refusals');
    expect(all.has_more).to.equal(false);
    const missingKey = all.data.find(isMissingKey);
    expect(missingKey).to.include({ user_id: null, count: 1 });
    // the next hour may have begun meanwhile
    expect(Date.parse(missingKey.hour)).to.be.oneOf([hour, hour + 3_600_000]);
    const { refusals } = await live.gateway.admin.account('usr_1');
    expect(refusals).to.deep.equal([
      { code: 'webhook_not_found', count: 7 },
      { code: 'invalid_value', count: 1 },
    ]);
  });

  it('are each read from an index', async () => {
    database.forget();
    await get('/v1/admin/webhooks?limit=1');
    await get(`/v1/admin/webhooks?state=disabled&limit=1&after=${made[0]}`);
    await get('/v1/admin/refusals');
    await get('/v1/admin/refusals?user_id=usr_1');
    const reads = ['webhooks', 'health', 'refusals'].flatMap((name) => database.commandsTo(`gateway_${name}`));
    const queries = reads.filter(({ name, command }) => name === 'aggregate' || command.sort);
    expect(queries).to.have.length.above(4);
    const db = database.connection.getClient().db(database.connection.name);
    for (const { name, command } of queries) {
      const fields = ['find', 'filter', 'sort', 'hint', 'limit', 'projection', 'aggregate', 'pipeline'];
      const asked = Object.entries(command).filter(([field]) => fields.includes(field));
      const explain = { ...Object.fromEntries(asked), ...(name === 'aggregate' && { cursor: {} }) };
      const plan = JSON.stringify(await db.command({ explain, verbosity: 'executionStats' }));
      expect(plan, `${name} ${JSON.stringify(command)}`).to.not.match(/"stage":"(COLLSCAN|SORT)"/);
      const examined = Number(/"totalKeysExamined":(\d+)/.exec(plan)?.[1]);
      expect(examined).to.be.at.most(8);
    }
  });

  it('can be searched by any id, which finds its type and account', async () => {
    const { gateway } = live;
    const key = await gateway.keys.create({ userId: 'usr_2' });
    const event = await gateway.publish({
      type: 'credits.depleted',
      userId: 'usr_2',
      data: { user_id: 'usr_2', credits_remaining: 0 },
    });
    await gateway.payments.completed({
      userId: 'usr_2',
      paymentId: 'pay_x',
      amount: 1,
      currency: 'usd',
      creditsAdded: 1,
    });
    const chat = await live.call('POST', '/v1/chat/completions', {
      model: 'm',
      messages: [{ role: 'user', content: 'Hi' }],
    });
    const requestId = chat.headers.get('x-request-id') ?? '';
    await until(async () => (await get(`/v1/admin/search?id=${requestId}`)).data.length === 1);
    for (const [id, type, userId] of [
      ['usr_2', 'account', 'usr_2'],
      [key.id, 'api_key', 'usr_2'],
      [key.key.slice(0, 30), 'api_key', 'usr_2'],
      [made[4], 'webhook', 'usr_1'],
      [event.id, 'event', 'usr_2'],
      ['pay_x', 'payment', 'usr_2'],
      [requestId, 'usage_record', 'usr_1'],
    ] as const) {
      const { data } = await get(`/v1/admin/search?id=${id}`);
      const found = data.map((result: { type: string; user_id: string }) => [id, result.type, result.user_id]);
      expect(found).to.deep.equal([[id, type, userId]]);
    }
    const [record] = await gateway.admin.search(requestId);
    expect(record?.id).to.match(/^use_/);
    const timeOf = (id: string) => id.slice(4, 14);
    expect(timeOf(record?.id ?? '') >= timeOf(requestId)).to.equal(true);
    expect(await gateway.admin.search(record?.id ?? '')).to.deep.equal([record]);
    expect(JSON.stringify(await gateway.admin.search(key.id))).to.not.include(key.key);
  });

  it('have no search result for an unknown id', async () => {
    const now = Date.now();
    for (const prefix of ['wh', 'evt', 'dlv', 'key', 'req', 'rec', 'use'] as const) {
      expect(await live.gateway.admin.search(newId(prefix, now))).to.deep.equal([]);
    }
    for (const id of ['usr', 'usr_22', 'emg_', '$ne', '{"$ne":1}']) {
      expect((await get(`/v1/admin/search?id=${encodeURIComponent(id)}`)).data).to.deep.equal([]);
    }
  });

  it('are visible only to a key with the scope admin', async () => {
    const { key } = await live.gateway.keys.create({ userId: 'usr_9' });
    for (const path of ['/v1/admin/webhooks', '/v1/admin/refusals', '/v1/admin/search?id=usr_1']) {
      const { status } = await fetch(live.url + path, { headers: { authorization: `Bearer ${key}` } });
      expect([path, status]).to.deep.equal([path, 403]);
    }
  });
});
