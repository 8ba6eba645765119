import { expect } from 'chai';
import { type LiveGateway, startGateway } from '../../support/gateway.ts';

const payment = { status: 'completed', user_id: 'usr_1', amount: 25, currency: 'usd', credits_added: 5 };
const failure = { status: 'failed', user_id: 'usr_1', amount: 25, currency: 'usd', reason: 'card_declined' };

describe('amounts of money and credits', () => {
  let live: LiveGateway;
  before(async () => {
    live = await startGateway({ credits: { prices: { '*': { input: 1 } } } });
  });
  after(() => live.close());

  const balance = async () => (await live.gateway.credits?.balance('usr_1'))?.creditsRemaining;

  const refused: [field: string, body: object][] = [
    ...[-1, -1e-9, -1e308, 1e308, 1e12 + 1, '25', null, [25], {}].flatMap((amount): [string, object][] => [
      ['amount', { ...payment, amount }],
      ['amount', { ...failure, amount }],
    ]),
    ...[-1, -0.000001, 1e9 + 1, 1e308, '5'].map((credits_added): [string, object] => [
      'credits_added',
      { ...payment, credits_added },
    ]),
  ];
  it('are refused where null stands for what a completed payment needs, as if it were absent', async () => {
    const reported = { ...payment, credits_added: null, payment_id: 'pay_null' };
    const { status, body: answer } = await live.call('POST', '/v1/payments', reported);
    expect([status, answer.error.code, answer.error.param]).to.deep.equal([
      400,
      'missing_required_parameter',
      'credits_added',
    ]);
    expect(await balance()).to.equal(0);
  });

  for (const [i, [field, body]] of refused.entries()) {
    it(`are refused with 400 and book nothing: ${JSON.stringify(body)}`, async () => {
      const reported = { ...body, payment_id: `pay_refused_${i}` };
      const { status, body: answer } = await live.call('POST', '/v1/payments', reported);
      expect([status, answer.error.param]).to.deep.equal([400, field]);
      expect(answer.error.message).to.match(new RegExp(`^${field}: must be`));
      expect(await balance()).to.equal(0);
    });
  }

  for (const amount of [-1, Number.NaN, Number.POSITIVE_INFINITY, 1e13]) {
    it(`are refused from code as well: a payment of ${amount}`, async () => {
      const { payments } = live.gateway;
      const common = { paymentId: 'pay_code', userId: 'usr_1', amount, currency: 'usd' };
      for (const report of [
        () => payments.completed({ ...common, creditsAdded: 5 }),
        () => payments.failed({ ...common, reason: 'card_declined' }),
      ]) {
        const error = await report().catch((thrown) => thrown);
        expect(error).to.include({ code: 'invalid_event_data', param: 'data.amount' });
      }
      expect(await balance()).to.equal(0);
    });
  }

  it('may be 0: such a payment is booked', async () => {
    const free = { ...payment, payment_id: 'pay_free', amount: 0, credits_added: 0 };
    expect((await live.call('POST', '/v1/payments', free)).status).to.equal(201);
  });

  it('never add up to a balance that could not be counted exactly', async () => {
    const give = async (reference: string) =>
      live.gateway.credits?.topUp({ userId: 'usr_rich', credits: 1e9, reference });
    for (let i = 0; i < 9; i += 1) await give(`r${i}`);
    const error = await give('r9').catch((thrown) => thrown);
    expect(error).to.include({ code: 'invalid_value', param: 'credits' });
    const common = { userId: 'usr_rich', amount: 1, currency: 'usd', creditsAdded: 1e9, paymentId: 'pay_rich' };
    expect(await live.gateway.payments.completed(common).catch(({ code }) => code)).to.equal('invalid_value');
    expect((await live.gateway.credits?.balance('usr_rich'))?.creditsRemaining).to.equal(9e9);
  });
});
