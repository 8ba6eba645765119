import { expect } from 'chai';
import fc from 'fast-check';
import { type CreditService, startCredits, type TestCredits } from './harness.ts';

/** A top-up or usage records charged together, by their numbers: the same number is the same one again. */
interface Step {
  readonly kind: 'top_up' | 'usage';
  readonly numbers: readonly number[];
  /** Which of the processes does it. */
  readonly process: number;
}

/** What an account begins with, what each top-up and record is worth, and what is done at the same moment, one moment after the other. */
interface Story {
  readonly initial: number;
  readonly threshold: number;
  readonly worth: readonly number[];
  readonly moments: readonly (readonly Step[])[];
}

const processes = 3;
const numbers = 8;

const some = (most: number) => fc.uniqueArray(fc.nat(numbers - 1), { minLength: 1, maxLength: most });
const process = fc.nat(processes - 1);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('top_up' as const), numbers: some(1), process }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('usage' as const), numbers: some(3), process }) },
);
const story: fc.Arbitrary<Story> = fc.record({
  initial: fc.nat(10),
  threshold: fc.nat(15),
  worth: fc.array(fc.nat(12), { minLength: numbers, maxLength: numbers }),
  moments: fc.array(fc.array(step, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 5 }),
});

/** What is true of an account, in the simplest way there is. */
interface Account {
  readonly balance: number;
  readonly booked: readonly string[];
  /** How often it was told. */
  readonly low: number;
  readonly depleted: number;
}

function followedBy(account: Account, { kind, numbers: all }: Step, { worth, threshold }: Story): Account {
  const fresh = all.map((number) => `${kind} ${number}`).filter((id) => !account.booked.includes(id));
  const by = fresh.reduce((sum, id) => sum + (worth[Number(id.split(' ')[1])] ?? 0), 0);
  const balance = kind === 'top_up' ? account.balance + by : account.balance - by;
  const falls = (below: (of: number) => boolean) => Number(!below(account.balance) && below(balance));
  return {
    balance,
    booked: [...account.booked, ...fresh].sort(),
    low: account.low + falls((of) => of < threshold && threshold > 0),
    depleted: account.depleted + falls((of) => of <= 0),
  };
}

function orders<T>(items: readonly T[]): T[][] {
  if (items.length === 0) return [[]];
  return items.flatMap((first, i) => orders(items.toSpliced(i, 1)).map((rest) => [first, ...rest]));
}

/** Everything that may have become of the account: what happens at the same moment happens in some order. */
function outcomes(told: Story): Account[] {
  let possible: Account[] = [{ balance: told.initial, booked: [], low: 0, depleted: 0 }];
  for (const moment of told.moments) {
    const next = possible.flatMap((account) =>
      orders(moment).map((order) => order.reduce((so, one) => followedBy(so, one, told), account)),
    );
    possible = [...new Map(next.map((account) => [JSON.stringify(account), account])).values()];
  }
  return possible;
}

describe('the ledger of credits, written by several processes at the same moment', function () {
  this.timeout(120_000);
  let kept: TestCredits;
  let users = 0;

  before(async () => {
    kept = await startCredits();
  });
  after(() => kept.drop());

  async function charge(service: CreditService, userId: string, all: readonly number[], worth: readonly number[]) {
    const records = all.map((number) => [number, worth[number] ?? 0] as const);
    for (;;) {
      try {
        return await kept.charge(service, userId, records);
      } catch (error) {
        // another has charged one of them at the same moment: counting tries again as well
        if ((error as { code?: unknown }).code !== 11_000) throw error;
      }
    }
  }

  async function take(service: CreditService, userId: string, one: Step, worth: readonly number[]): Promise<void> {
    if (one.kind === 'usage') return charge(service, userId, one.numbers, worth);
    const [number = 0] = one.numbers;
    await service.topUp({ userId, credits: worth[number] ?? 0, reference: `${number}` });
  }

  async function found(userId: string, service: CreditService): Promise<Account> {
    const entries = await kept.ledgerOf(userId);
    const { creditsRemaining: balance } = await service.balance(userId);
    if (entries.length > 0) {
      expect(entries.reduce((sum, { amount }) => sum + amount, 0) / 1_000_000, 'sum of the ledger').to.equal(balance);
    }
    const booked = entries
      .filter(({ kind }) => kind !== 'initial')
      .map(({ kind, _id }) => `${kind} ${/(\d+)\W*$/.exec(_id)?.[1]}`);
    const told = await kept.toldOf(userId);
    const count = (wanted: string) => told.filter(({ type }) => type === wanted).length;
    return { balance, booked: booked.sort(), low: count('credits.low'), depleted: count('credits.depleted') };
  }

  it('equals the result of one possible order of the bookings, with one event for each fall', async () => {
    await fc.assert(
      fc.asyncProperty(story, async (told) => {
        const userId = `usr_${users++}`;
        const options = { initialBalance: told.initial, lowThreshold: told.threshold };
        const services = Array.from({ length: processes }, () => kept.newService(options));
        for (const moment of told.moments) {
          await Promise.all(moment.map((one) => take(services[one.process] as CreditService, userId, one, told.worth)));
        }
        expect(outcomes(told)).to.deep.include(await found(userId, services[0] as CreditService));
        await Promise.all(services.map((service) => service.close()));
      }),
      { numRuns: 25 },
    );
  });
});
