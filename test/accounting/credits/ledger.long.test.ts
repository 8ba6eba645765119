import { expect } from 'chai';
import fc from 'fast-check';
import { type CreditService, startCredits, type TestCredits } from './harness.ts';

/** A top-up or a charge of so many whole credits, by its number; the same number again must do nothing. */
type Step = { readonly kind: 'top_up' | 'usage'; readonly number: number; readonly credits: number };

const step: fc.Arbitrary<Step> = fc.record({
  kind: fc.constantFrom('top_up' as const, 'usage' as const),
  number: fc.integer({ min: 0, max: 12 }),
  credits: fc.integer({ min: 0, max: 30 }),
});

/** What the ledger has to be, in the simplest way there is. */
function simulate(steps: readonly Step[], threshold: number) {
  const seen = new Set<string>();
  const told: string[] = [];
  let balance: number | undefined;
  let low = true;
  let depleted = true;
  for (const { kind, number, credits } of steps) {
    if (seen.has(`${kind}${number}`)) continue;
    seen.add(`${kind}${number}`);
    balance = (balance ?? 0) + (kind === 'top_up' ? credits : -credits);
    if (!low && balance < threshold) told.push('credits.low');
    if (!depleted && balance <= 0) told.push('credits.depleted');
    low = balance < threshold;
    depleted = balance <= 0;
  }
  return { balance: balance ?? 0, told, entries: seen.size };
}

describe('the ledger of credits', function () {
  this.timeout(120_000);
  let kept: TestCredits;
  let users = 0;

  before(async () => {
    kept = await startCredits();
  });
  after(() => kept.drop());

  const newService = () => kept.newService({ lowThreshold: 10 });

  /** Does a step as the gateway does it: top-ups by reference, charges by usage record, in a transaction. */
  async function take(service: CreditService, userId: string, { kind, number, credits }: Step) {
    if (kind === 'usage') return kept.charge(service, userId, [[number, credits]]);
    const topUp = service.topUp({ userId, credits, reference: String(number) });
    // another amount under a number that was used is refused, and does nothing as well
    return topUp.catch((error) => expect(error).to.include({ code: 'idempotency_conflict' }));
  }

  async function stateOf(userId: string) {
    const entries = await kept.ledgerOf(userId);
    const told = await kept.toldOf(userId);
    return {
      sum: entries.reduce((sum, { amount }) => sum + amount, 0) / 1_000_000,
      entries: entries.length,
      told: told.map(({ type }) => type),
    };
  }

  it('matches a simple model for any sequence of top-ups and charges, repeated ones included', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
        const userId = `usr_${users++}`;
        const service = newService();
        for (const one of steps) await take(service, userId, one);
        const expected = simulate(steps, 10);
        const { sum, entries, told } = await stateOf(userId);
        expect({ balance: sum, entries }).to.deep.equal({ balance: expected.balance, entries: expected.entries });
        expect(told.toSorted()).to.deep.equal(expected.told.toSorted());
        expect((await service.balance(userId)).creditsRemaining).to.equal(expected.balance);
      }),
      { numRuns: 25 },
    );
  });

  it('adds up when many processes book at the same moment, and publishes each event once', async () => {
    const services = Array.from({ length: 4 }, newService);
    const userId = `usr_${users++}`;
    await take(newService(), userId, { kind: 'top_up', number: 0, credits: 20 });
    const charges = Array.from({ length: 12 }, (_, number): Step => ({ kind: 'usage', number, credits: 2 }));
    await Promise.all(services.map((service) => Promise.all(charges.map((charge) => take(service, userId, charge)))));
    const { sum, entries, told } = await stateOf(userId);
    expect({ sum, entries }).to.deep.equal({ sum: -4, entries: 13 });
    expect(told).to.deep.equal(['credits.low', 'credits.depleted']);
    expect((await newService().balance(userId)).creditsRemaining).to.equal(-4);
  });

  it('publishes credits.low again only after the balance rose above the threshold', async () => {
    const service = newService();
    const userId = `usr_${users++}`;
    const steps: [Step['kind'], number][] = [
      ['top_up', 12],
      ['usage', 5],
      ['usage', 1],
      ['top_up', 3],
      ['top_up', 5],
      ['usage', 8],
    ];
    for (const [number, [kind, credits]] of steps.entries()) await take(service, userId, { kind, number, credits });
    const told = await kept.toldOf(userId);
    expect(told.map(({ data }) => data)).to.deep.equal([
      { user_id: userId, credits_remaining: 7, threshold: 10 },
      { user_id: userId, credits_remaining: 6, threshold: 10 },
    ]);
  });

  for (const [param, change] of [
    ['userId', { userId: '' }],
    ['reference', { reference: '' }],
    ['reference', { reference: { $ne: null } }],
    ['credits', { credits: -1 }],
  ] as const) {
    it(`refuses a top-up with ${JSON.stringify(change)}`, async () => {
      const topUp = { ...{ userId: 'usr_1', credits: 1, reference: 'r' }, ...change } as never;
      const error = await newService()
        .topUp(topUp)
        .catch((thrown) => thrown);
      expect(error).to.include({ code: 'invalid_value', param });
    });
  }
});
