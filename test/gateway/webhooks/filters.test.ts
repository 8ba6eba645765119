import { expect } from 'chai';
import { startReceiver, type TestReceiver } from '../../deliveries/receiver.ts';
import { type LiveGateway, startGateway } from '../../support/gateway.ts';
import { eventually } from '../../support/until.ts';

const payment = (currency: string) => ({
  type: 'payment.completed' as const,
  userId: 'usr_1',
  data: { payment_id: 'pay_1', amount: 20, currency, credits_added: 2000, user_id: 'usr_1' },
});

describe('a webhook with filters', () => {
  let live: LiveGateway;
  let receiver: TestReceiver;
  let id: string;

  before(async () => {
    live = await startGateway();
    receiver = await startReceiver();
    const filters = { 'data.currency': ['usd', 'eur'] };
    const { status, body } = await live.call('POST', '/v1/webhooks', {
      url: receiver.url,
      events: ['payment.completed'],
      filters,
    });
    expect(status).to.equal(201);
    expect(body.filters).to.deep.equal(filters);
    ({ id } = body);
  });
  after(async () => {
    await live.close();
    await receiver.stop();
  });

  const deliveries = async () => (await live.call('GET', `/v1/deliveries?webhook_id=${id}`)).body.data;

  it('gets the events that match, and no deliveries of the others are made', async () => {
    const usd = await live.gateway.publish(payment('usd'));
    const gbp = await live.gateway.publish(payment('gbp'));
    const eur = await live.gateway.publish(payment('eur'));
    const received = await receiver.count(2);
    expect(received.map(({ headers }) => headers['webhook-id']).sort()).to.deep.equal([usd.id, eur.id].sort());
    const all = await eventually(deliveries, (found) => found.length === 2);
    expect(all.map((delivery: { event_id: string }) => delivery.event_id)).to.not.include(gbp.id);
    expect((await live.call('GET', `/v1/events/${gbp.id}`)).body).to.deep.include({ skipped: 0, state: 'none' });
  });

  it('gets test events whatever their data is', async () => {
    const { body } = await live.call('POST', `/v1/webhooks/${id}/test`, { type: 'payment.completed' });
    expect(body.state).to.equal('delivered');
    const changed = await live.call('PATCH', `/v1/webhooks/${id}`, { filters: { 'data.currency': ['none'] } });
    expect(changed.body.filters).to.deep.equal({ 'data.currency': ['none'] });
    const again = await live.call('POST', `/v1/webhooks/${id}/test`, { type: 'payment.completed' });
    expect(again.body.state).to.equal('delivered');
  });

  it('recovers only the events that matched its filters while it was paused', async () => {
    const since = new Date(Date.now() - 1_000).toISOString();
    await live.call('PATCH', `/v1/webhooks/${id}`, { active: false, filters: { 'data.currency': ['chf'] } });
    const chf = await live.gateway.publish(payment('chf'));
    const sek = await live.gateway.publish(payment('sek'));
    await live.call('PATCH', `/v1/webhooks/${id}`, { active: true, filters: null });
    const before = receiver.received.length;
    const { status } = await live.call('POST', `/v1/webhooks/${id}/recover`, { since });
    expect(status).to.equal(202);
    const received = await receiver.count(before + 1);
    expect(received.at(-1)?.headers['webhook-id']).to.equal(chf.id);
    const nok = await live.gateway.publish(payment('nok'));
    const ids = (await receiver.count(before + 2)).map(({ headers }) => headers['webhook-id']);
    expect(ids).to.include(nok.id).and.not.include(sek.id);
  });

  const wrong: [what: string, filters: unknown, code: string, param: string, says: string][] = [
    ['a path outside the data', { type: ['x'] }, 'invalid_value', 'filters', "'type' must be a path into the data"],
    ['no values', { 'data.model': [] }, 'invalid_value', 'filters.data.model', 'must be an array of 1 to 50 items'],
    ['a value that is not a list', { 'data.model': 'gpt-5' }, 'invalid_type', 'filters.data.model', 'must be an array'],
    ['an object as a value', { 'data.model': [{}] }, 'invalid_type', 'filters.data.model[0]', 'a string'],
    ['a list', [], 'invalid_type', 'filters', 'must be an object or null'],
  ];
  for (const [what, filters, code, param, says] of wrong) {
    it(`is refused with ${what}, and the field is named`, async () => {
      const { status, body } = await live.call('PATCH', `/v1/webhooks/${id}`, { filters });
      expect(status).to.equal(400);
      expect(body.error).to.include({ code, param });
      expect(body.error.message).to.include(says);
    });
  }
});
