import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { CreditOptions } from '../../../src/index.ts';
import { until } from '../../support/until.ts';
import { startCredits, startPayments, type TestCredits } from './harness.ts';

const call = { requestId: 'req_1', principal: { userId: 'usr_new' }, endpoint: '/chat/completions', stream: false };

describe('credits given to an account', () => {
  let kept: TestCredits;

  beforeEach(async () => {
    kept = await startCredits();
  });
  afterEach(() => kept.drop());

  const newService = (options: Partial<CreditOptions> = {}) => kept.newService({ expectedOutputTokens: 0, ...options });

  it('may share a reference with another account or a payment', async () => {
    const service = newService();
    for (const userId of ['usr_1', 'usr_2']) await service.topUp({ userId, credits: 5, reference: 'pay_1' });
    const paid = { userId: 'usr_1', credits: 7, paymentId: 'pay_1' };
    await kept.events.transaction((session) => service.credit(paid, session));
    expect((await service.balance('usr_1')).creditsRemaining).to.equal(12);
    expect((await service.balance('usr_2')).creditsRemaining).to.equal(5);
  });

  it('are added once, however many requests repeat the top-up at the same moment', async () => {
    const services = [newService(), newService()];
    const given = Array.from({ length: 12 }, (_, i) => ({ userId: 'usr_1', credits: 1, reference: `r${i % 3}` }));
    await Promise.all(given.map((topUp, i) => services[i % 2]?.topUp(topUp)));
    expect((await newService().balance('usr_1')).creditsRemaining).to.equal(3);
    expect(await kept.ledgerOf('usr_1')).to.have.length(3);
  });

  it('are kept when the account is written while a payment is booked', async () => {
    const service = newService();
    await service.topUp({ userId: 'usr_1', credits: 5, reference: 'first' });
    const accounts = kept.connection.collection('gateway_credit_accounts');
    const payments = await startPayments(kept.connection, kept.events, service);
    let runs = 0;
    let written: Promise<unknown> | undefined;
    const { completed } = payments.service(async (event, options) => {
      runs += 1;
      written ??= accounts.updateOne({}, { $inc: { turn: 1 } });
      // done at once where nothing holds it up
      await Promise.race([written, sleep(200)]);
      return kept.events.publish(event, options);
    });
    await completed({ paymentId: 'pay_1', userId: 'usr_1', amount: 1, currency: 'usd', creditsAdded: 7 });
    await written;
    expect(runs, 'runs of the transaction').to.equal(1);
    expect((await service.balance('usr_1')).creditsRemaining).to.equal(12);
  });

  it('are refused for another amount under the same reference', async () => {
    const service = newService();
    await service.topUp({ userId: 'usr_1', credits: 5, reference: 'gift' });
    const error = await service.topUp({ userId: 'usr_1', credits: 6, reference: 'gift' }).catch((thrown) => thrown);
    expect(error).to.include({ code: 'idempotency_conflict', param: 'reference' });
    expect((await service.balance('usr_1')).creditsRemaining).to.equal(5);
  });

  it('include the initial balance, added once at the first call, charge or top-up', async () => {
    const service = newService({ initialBalance: 3 });
    expect((await service.balance('usr_new')).creditsRemaining).to.equal(3);
    expect(await kept.ledgerOf('usr_new')).to.have.length(0);
    (await service.admit({ ...call, model: 'm' }, 2)).dropped();
    await until(async () => (await kept.ledgerOf('usr_new')).length > 0);
    expect((await kept.ledgerOf('usr_new')).map(({ kind, amount }) => [kind, amount])).to.deep.equal([
      ['initial', 3_000_000],
    ]);
    expect((await service.topUp({ userId: 'usr_new', credits: 1, reference: 'r' })).creditsRemaining).to.equal(4);

    for (let i = 0; i < 2; i += 1) await kept.charge(service, 'usr_charged', [[1, 2]]);
    expect((await service.balance('usr_charged')).creditsRemaining).to.equal(1);
    await service.close();
  });
});
