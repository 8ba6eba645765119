import { expect } from 'chai';
import type { Connection } from 'mongoose';
import { rejection, startEvents, type TestEvents } from '../../events/harness.ts';
import { type LiveGateway, startGateway } from '../../support/gateway.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { startPayments } from '../credits/harness.ts';

const payment = { paymentId: 'pay_1', userId: 'usr_1', amount: 25, currency: 'usd', creditsAdded: 2500 };
const data = { payment_id: 'pay_1', amount: 25, currency: 'usd', credits_added: 2500, user_id: 'usr_1' };

describe('payments', () => {
  let connection: Connection;
  let drop: () => Promise<void>;
  let events: TestEvents;
  let payments: Awaited<ReturnType<typeof startPayments>>;

  beforeEach(async () => {
    ({ connection, drop } = await freshDatabase());
    events = await startEvents(connection);
    payments = await startPayments(connection, events);
  });
  afterEach(() => drop());

  const newService = (publish?: TestEvents['publish']) => payments.service(publish);
  const recorded = () => payments.recorded();
  const published = async () => (await events.stored()).map(({ type, body }) => [type, JSON.parse(String(body)).data]);

  it('that completed are published once, however often they are reported', async () => {
    const service = newService();
    const first = await service.completed(payment);
    expect(first.data).to.deep.equal(data);
    expect(await service.completed(payment)).to.deep.equal(first);
    expect(await published()).to.deep.equal([['payment.completed', data]]);
  });

  it('that completed are published once, however many report them at the same moment', async () => {
    const reports = await Promise.all(Array.from({ length: 10 }, () => newService().completed(payment)));
    expect(new Set(reports.map(({ id }) => id)).size).to.equal(1);
    expect(await published()).to.have.length(1);
    expect(await recorded()).to.equal(1);
  });

  it('are remembered after their event was deleted', async () => {
    const service = newService();
    const first = await service.completed(payment);
    await events.events.deleteMany({});
    expect(await service.completed(payment)).to.deep.equal(first);
    expect(await published()).to.deep.equal([]);
  });

  for (const change of [{ amount: 26 }, { currency: 'eur' }, { creditsAdded: 1 }, { userId: 'usr_2' }]) {
    it(`conflict with ${JSON.stringify(change)} under the same id`, async () => {
      const service = newService();
      await service.completed(payment);
      const { code, param } = await rejection(service.completed({ ...payment, ...change }));
      expect([code, param]).to.deep.equal(['idempotency_conflict', 'payment_id']);
      expect(await published()).to.have.length(1);
    });
  }

  it('are recorded and published together or not at all', async () => {
    const lost = newService(async (event, options) => {
      await events.publish(event, options);
      throw new Error('lost');
    });
    const error = await lost.completed(payment).catch((thrown) => thrown);
    expect(error.message).to.equal('lost');
    expect([await recorded(), await published()]).to.deep.equal([0, []]);
    await newService().completed(payment);
    expect([await recorded(), (await published()).length]).to.deep.equal([1, 1]);
  });

  it('that failed are published once, or once for each named attempt', async () => {
    const service = newService();
    const { creditsAdded: _, ...failed } = { ...payment, reason: 'card_declined' };
    const first = await service.failed(failed);
    expect(await service.failed(failed)).to.deep.equal(first);
    await service.failed({ ...failed, reason: 'expired_card' }, { idempotencyKey: 'attempt-2' });
    const { credits_added: __, ...told } = { ...data, reason: 'card_declined' };
    expect(await published()).to.deep.equal([
      ['payment.failed', told],
      ['payment.failed', { ...told, reason: 'expired_card' }],
    ]);
    expect((await service.completed(payment)).type).to.equal('payment.completed');
  });

  for (const paymentId of ['', `pay_${'x'.repeat(197)}`, 'pay_\0', { $ne: null }, null]) {
    it(`are refused with the id ${JSON.stringify(paymentId).slice(0, 20)}`, async () => {
      const { code, param } = await rejection(newService().completed({ ...payment, paymentId: paymentId as string }));
      expect([code, param]).to.deep.equal(['invalid_value', 'payment_id']);
    });
  }

  it('are refused with an invalid currency, and nothing is recorded', async () => {
    const { code, param } = await rejection(newService().completed({ ...payment, currency: 'USD' }));
    expect([code, param]).to.deep.equal(['invalid_event_data', 'data.currency']);
    expect(await recorded()).to.equal(0);
  });
});

describe('payments over HTTP', () => {
  let live: LiveGateway;
  before(async () => {
    live = await startGateway();
  });
  after(() => live.close());

  const common = { payment_id: 'pay_2', user_id: 'usr_1', amount: 25, currency: 'usd' };
  const completed = { status: 'completed', ...common, credits_added: 2500 };
  const failed = { status: 'failed', ...common, payment_id: 'pay_3', reason: 'card_declined' };

  it('are reported by POST /v1/payments and answered with their event', async () => {
    const first = await live.call('POST', '/v1/payments', completed);
    expect([first.status, first.body.type, first.body.user_id]).to.deep.equal([201, 'payment.completed', 'usr_1']);
    expect((await live.call('POST', '/v1/payments', completed)).body).to.deep.equal(first.body);
    const { body } = await live.call('GET', `/v1/events/${first.body.id}`);
    expect(body.data).to.deep.equal({ ...data, payment_id: 'pay_2' });
    expect((await live.call('POST', '/v1/payments', failed)).body.type).to.equal('payment.failed');
  });

  const refused: [object, number, string, string][] = [
    [{ ...completed, amount: 1 }, 409, 'idempotency_conflict', 'payment_id'],
    [{ ...completed, credits_added: undefined }, 400, 'missing_required_parameter', 'credits_added'],
    [{ ...completed, credits_added: -1 }, 400, 'invalid_value', 'credits_added'],
    [{ ...completed, reason: 'none' }, 400, 'unknown_parameter', 'reason'],
    [{ ...failed, reason: undefined }, 400, 'missing_required_parameter', 'reason'],
    [{ ...failed, credits_added: 1 }, 400, 'unknown_parameter', 'credits_added'],
    [{ ...completed, status: 'pending' }, 400, 'invalid_value', 'status'],
    [{ ...completed, payment_id: '' }, 400, 'invalid_value', 'payment_id'],
  ];
  for (const [body, status, code, param] of refused) {
    it(`are refused as ${JSON.stringify(body)}`, async () => {
      const answer = await live.call('POST', '/v1/payments', body);
      expect([answer.status, answer.body.error.code, answer.body.error.param]).to.deep.equal([status, code, param]);
    });
  }
});
