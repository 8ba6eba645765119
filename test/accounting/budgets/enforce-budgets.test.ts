import { expect } from 'chai';
import type { Connection } from 'mongoose';
import type { Budget, GatewayError, Principal, Quota } from '../../../src/index.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { until } from '../../support/until.ts';
import { accountBudgetsFrom, openBudgets } from './harness.ts';

const used = {
  inputTokens: 90,
  cachedInputTokens: 0,
  outputTokens: 10,
  images: 0,
  requests: 7,
  microCredits: 3_000_000,
};
const noon = Date.parse('2026-01-31T12:00:00Z');
const hour = 3_600_000;

/** A call that uses one token. */
const byCall = (admit: ReturnType<ReturnType<typeof openBudgets>['check']>) => (principal: Principal) =>
  admit({ requestId: 'req_1', principal, endpoint: '/chat/completions', model: 'm', stream: false }, 1, {
    choices: 1,
    maxTokens: 0,
  });
type Check = ReturnType<typeof byCall>;

/** What has been used each day: by an account in all, and with one of its keys. */
const days = ['2025-12-31', '2026-01-30', '2026-01-31'];

describe('a budget or quota that is enforced', () => {
  let connection: Connection;
  let drop: () => Promise<void>;
  let now = noon;

  before(async () => {
    ({ connection, drop } = await freshDatabase());
    const { periods, counters } = openBudgets(connection, () => new Date(now));
    await periods.insertMany(
      (
        [
          ['daily', '2026-01-31'],
          ['monthly', '2026-01'],
        ] as const
      ).map(([period, start]) => {
        const userId = 'usr_1';
        return { _id: JSON.stringify([userId, period, start]), userId, period, start, ...used };
      }),
    );
    const counted = ['m', 'n'].flatMap((model) => days.map((day) => ({ userId: 'usr_1', day, model, keyId: 'key_1' })));
    const others = [
      { userId: 'usr_1', day: days[2], model: 'm', keyId: 'key_2' },
      { userId: 'usr_2', day: days[2], model: 'm', keyId: 'key_1' },
    ];
    await counters.insertMany([...counted, ...others].map((key, i) => ({ _id: String(i), ...key, ...used })));
  });
  after(() => drop());

  type Checked = Parameters<ReturnType<typeof openBudgets>['check']>[0];
  const enforce = (checked?: Checked): Check => byCall(openBudgets(connection, () => new Date(now)).check(checked));

  async function refusal(of: () => ReturnType<Check>): Promise<string | undefined> {
    try {
      (await of())?.dropped();
      return undefined;
    } catch (error) {
      expect((error as GatewayError).code).to.equal('insufficient_quota');
      return (error as GatewayError).message;
    }
  }

  const quotas: [quota: Quota, at: number, message: string | undefined][] = [
    [
      { unit: 'tokens', daily: 100 },
      noon,
      'daily quota of 100 tokens (100 used); it resets at 2026-02-01T00:00:00.000Z',
    ],
    [{ unit: 'tokens', daily: 101 }, noon, undefined],
    [{ unit: 'tokens', daily: 101, monthly: 100 }, noon, 'monthly quota of 100 tokens (100 used)'],
    [{ unit: 'requests', monthly: 7 }, noon, 'monthly quota of 7 requests (7 used)'],
    [{ unit: 'credits', monthly: 3 }, noon, 'monthly quota of 3 credits (3 used)'],
    [{ unit: 'credits', monthly: 4 }, noon, undefined],
    [{ unit: 'tokens', daily: 100 }, noon + 12 * hour, undefined],
  ];
  for (const [quota, at, message] of quotas) {
    it(`${message ? 'refuses' : 'admits'} a call of an account with ${JSON.stringify(quota)} at ${new Date(at).toISOString()}`, async () => {
      now = at;
      const check = enforce({ quota });
      // read, then remembered
      for (let i = 0; i < 2; i += 1) {
        const text = await refusal(() => check({ userId: 'usr_1' }));
        if (message) expect(text).to.contain(`This account has used up its ${message}`);
        else expect(text).to.equal(undefined);
      }
    });
  }

  const keys: [budget: Budget, at: number, message: string | undefined][] = [
    [
      { period: 'day', tokens: 200 },
      noon,
      'daily budget of 200 tokens (200 used); it resets at 2026-02-01T00:00:00.000Z',
    ],
    [{ period: 'day', tokens: 201, requests: 15 }, noon, undefined],
    [{ period: 'day', tokens: 201, requests: 14 }, noon, 'daily budget of 14 requests (14 used)'],
    [{ period: 'day', requests: 1 }, noon + 12 * hour, undefined],
    [
      { period: 'month', credits: 12 },
      noon,
      'monthly budget of 12 credits (12 used); it resets at 2026-02-01T00:00:00.000Z',
    ],
    [{ period: 'month', credits: 12.000001 }, noon, undefined],
    [{ period: 'total', tokens: 600 }, noon + 12 * hour, 'total budget of 600 tokens (600 used); it does not reset'],
    [{ period: 'total', tokens: 601 }, noon, undefined],
  ];
  for (const [budget, at, message] of keys) {
    it(`${message ? 'refuses' : 'admits'} a call of a key with ${JSON.stringify(budget)} at ${new Date(at).toISOString()}`, async () => {
      now = at;
      const check = enforce();
      const caller = { userId: 'usr_1', keyId: 'key_1', budgets: [budget] };
      for (let i = 0; i < 2; i += 1) {
        const text = await refusal(() => check(caller));
        if (message) expect(text).to.contain(`This API key has used up its ${message}`);
        else expect(text).to.equal(undefined);
      }
    });
  }

  it('of an account is the one that the call carries, or else the one that is stored', async () => {
    now = noon;
    const budget = { period: 'month', requests: 7 } as const;
    expect(await refusal(() => enforce()({ userId: 'usr_1', accountBudgets: [budget] }))).to.contain(
      'This account has used up its monthly budget of 7 requests (7 used)',
    );
    let stored: Budget[] = [budget];
    const readAccountBudgets = accountBudgetsFrom(async () => stored);
    const check = enforce({ accountBudgets: readAccountBudgets });
    // the first call does not wait for what is stored
    expect(check({ userId: 'usr_1' })).to.equal(undefined);
    await until(() => (readAccountBudgets('usr_1') as readonly Budget[]).length > 0);
    expect(await refusal(() => check({ userId: 'usr_1' }))).to.contain('monthly budget of 7 requests');
    stored = [];
    await until(async () => (await refusal(() => check({ userId: 'usr_1' }))) === undefined);
  });

  it('is checked synchronously where neither account nor key has one', () => {
    expect(enforce()({ userId: 'usr_1', keyId: 'key_1' })).to.equal(undefined);
  });

  it('admits calls while the database cannot be read', async () => {
    const check = enforce({ isReadable: false });
    await check({ userId: 'usr_1', keyId: 'key_1', budgets: [{ period: 'day', requests: 1 }] });
  });
});
