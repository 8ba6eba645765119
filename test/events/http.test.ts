import { expect } from 'chai';
import { type LiveGateway, startGateway } from '../support/gateway.ts';

const low = { user_id: 'usr_2', credits_remaining: 5, threshold: 10 };

describe('events over HTTP', () => {
  let live: LiveGateway;
  before(async () => {
    live = await startGateway({ credits: { prices: { '*': { input: 1, output: 1 } } } });
  });
  after(() => live.close());

  async function post(path: string, body: unknown, key?: string) {
    const response = await fetch(live.url + path, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${live.key}`,
        'content-type': 'application/json',
        ...(key !== undefined && { 'idempotency-key': key }),
      },
      body: JSON.stringify(body),
    });
    // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape it asks for
    return { status: response.status, body: (await response.json()) as any };
  }

  const publish = (body: unknown, key?: string) => post('/v1/events', body, key);

  const event = { type: 'credits.low', user_id: 'usr_2', data: low };

  it('are published for any account, and seen by that account alone', async () => {
    const { status, body } = await publish(event);
    expect(status).to.equal(201);
    expect(body).to.include({ type: 'credits.low', user_id: 'usr_2' });
    expect(body.data).to.deep.equal(low);
    expect((await live.call('GET', `/v1/events/${body.id}`)).body.error.code).to.equal('event_not_found');
    const { key } = await live.gateway.keys.create({ userId: 'usr_2' });
    const own = await fetch(`${live.url}/v1/events/${body.id}`, { headers: { authorization: `Bearer ${key}` } });
    const { id, created } = body;
    expect(await own.json()).to.deep.equal({
      id,
      type: 'credits.low',
      created,
      data: low,
      test: false,
      state: 'none',
      deliveries: { pending: 0, delivered: 0, failed: 0, canceled: 0 },
      skipped: 0,
    });
  });

  it('are published once for an Idempotency-Key, which is refused with other data', async () => {
    const first = await publish(event, 'order-17');
    const again = await publish(
      { ...event, data: { threshold: 10, credits_remaining: 5, user_id: 'usr_2' } },
      'order-17',
    );
    expect(again.body).to.deep.equal(first.body);
    expect(first.body.idempotency_key).to.equal('order-17');
    const other = await publish({ ...event, data: { ...low, threshold: 11 } }, 'order-17');
    expect([other.status, other.body.error.code]).to.deep.equal([409, 'idempotency_conflict']);
  });

  for (const key of ['undefined', 'null', '']) {
    it(`are refused with the Idempotency-Key ${JSON.stringify(key)}, and so are payments and top-ups`, async () => {
      // what a client writes whose variable is not set: the second event would pass for the first
      const message = 'idempotency-key: must be a string of 1 to 256 characters, and not undefined or null';
      const payment = { payment_id: 'pay_1', amount: 1, currency: 'usd', user_id: 'usr_2' };
      for (const [path, body] of [
        ['/v1/events', event],
        ['/v1/payments', { ...payment, status: 'failed', reason: 'no funds' }],
        ['/v1/credits/top_ups', { user_id: 'usr_2', credits: 5 }],
      ] as const) {
        const answer = await post(path, body, key);
        expect([answer.status, answer.body.error.message]).to.deep.equal([400, message]);
        expect(answer.body.error.param).to.equal('idempotency-key');
      }
    });
  }

  const refused: [string, object, string, string][] = [
    ['an unknown type', { type: 'payment.refunded' }, 'unknown_event_type', 'type'],
    ['a value of the wrong type', { data: { ...low, threshold: '10' } }, 'invalid_event_data', 'data.threshold'],
    ['a missing field', { data: { user_id: 'usr_2' } }, 'invalid_event_data', 'data.credits_remaining'],
    ['an empty user_id', { user_id: '' }, 'invalid_value', 'user_id'],
    ['an unknown field', { userId: 'usr_2' }, 'unknown_parameter', 'userId'],
  ];
  for (const [what, change, code, param] of refused) {
    it(`are refused with ${what}, and nothing is stored`, async () => {
      const { id } = (await live.call('GET', '/v1/events?limit=1')).body.data[0] ?? {};
      const { status, body } = await publish({ ...event, ...change });
      expect([status, body.error.code, body.error.param]).to.deep.equal([400, code, param]);
      expect((await live.call('GET', '/v1/events?limit=1')).body.data[0]?.id).to.equal(id);
    });
  }

  it('are not limited by limits.writesPerMinute, since a billing service publishes many', async () => {
    const busy = await startGateway({ limits: { writesPerMinute: 2 } });
    const statuses = [];
    for (let i = 0; i < 4; i += 1) statuses.push((await busy.call('POST', '/v1/events', event)).status);
    expect(statuses).to.deep.equal([201, 201, 201, 201]);
    await busy.close();
  });

  it('are listed newest first, in pages, and filtered by type, time and state', async () => {
    const ids = [];
    for (const credits_remaining of [4, 3, 2]) {
      const data = { ...low, user_id: 'usr_1', credits_remaining };
      ids.push((await publish({ type: 'credits.low', user_id: 'usr_1', data })).body.id);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    await publish({ type: 'credits.depleted', user_id: 'usr_1', data: { user_id: 'usr_1', credits_remaining: 0 } });
    const first = (await live.call('GET', '/v1/events?type=credits.low&limit=2')).body;
    expect(first.data.map(({ id }: { id: string }) => id)).to.deep.equal([ids[2], ids[1]]);
    expect(first.has_more).to.equal(true);
    const rest = (await live.call('GET', `/v1/events?type=credits.low&limit=2&after=${ids[1]}`)).body;
    expect(rest.data.map(({ data }: { data: object }) => data)).to.deep.equal([
      { ...low, user_id: 'usr_1', credits_remaining: 4 },
    ]);
    expect(rest.has_more).to.equal(false);
    const { created } = (await live.call('GET', `/v1/events/${ids[1]}`)).body;
    const listed = async (query: string) =>
      (await live.call('GET', `/v1/events?${query}`)).body.data.map(({ id }: { id: string }) => id);
    for (const state of ['', '&state=none']) {
      expect(await listed(`type=credits.low&since=${created}${state}`)).to.deep.equal([ids[2], ids[1]]);
      expect(await listed(`type=credits.low&until=${created}${state}`)).to.deep.equal([ids[0]]);
    }
    expect(await listed(`type=credits.low&until=${created}&after=${ids[0]}`)).to.deep.equal([]);
    for (const since of ['yesterday', '2026-01-01', '2026-02-30T00:00:00Z', '2026-01-01T00:00:00']) {
      const wrong = await live.call('GET', `/v1/events?since=${since}`);
      expect([wrong.status, wrong.body.error.param], since).to.deep.equal([400, 'since']);
    }
    for (const offset of ['+00:00', '+0000']) {
      const since = encodeURIComponent(created.replace('Z', offset));
      expect(await listed(`type=credits.low&since=${since}`), offset).to.deep.equal([ids[2], ids[1]]);
    }
    const all = (await live.call('GET', '/v1/events')).body.data;
    expect(all[0].type).to.equal('credits.depleted');
  });

  it('have types that are listed with self-contained schemas', async () => {
    const { data } = (await live.call('GET', '/v1/event_types')).body;
    expect(data).to.have.length(8);
    expect(JSON.stringify(data)).to.not.contain('$ref');
    const [threshold] = data;
    expect(threshold).to.include({ type: 'usage.threshold' });
    expect(threshold.schema.properties.user_id).to.include({ type: 'string', minLength: 1 });
    expect(threshold.example).to.include({ user_id: 'usr_1' });
  });
});
