import { expect } from 'chai';
import type { APIError } from 'openai';
import { createEnforceQuotas } from '../../../src/accounting/usage/enforce-quotas.ts';
import { createPeriodModel } from '../../../src/accounting/usage/model.ts';
import { periodsOf } from '../../../src/accounting/usage/sums.ts';
import type { Quota } from '../../../src/options/options.ts';
import { startAccount } from '../../support/account.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { eventually } from '../../support/until.ts';

const messages = [{ role: 'user' as const, content: 'Hi' }];
const used = {
  inputTokens: 90,
  cachedInputTokens: 0,
  outputTokens: 10,
  images: 0,
  requests: 7,
  microCredits: 3_000_000,
};

describe('a quota that is enforced', () => {
  it('refuses an OpenAI client as OpenAI does, and no other account', async () => {
    const perUser = (userId: string): Quota | undefined =>
      userId === 'usr_1' ? { unit: 'requests', daily: 2 } : undefined;
    const usage = { prompt_tokens: 1, completion_tokens: 1 };
    const account = await startAccount(usage, { quotas: { perUser, enforce: true } });
    const ask = () => account.client.chat.completions.create({ model: 'm', messages });
    try {
      await ask();
      await ask();
      let before = 0;
      const refused = async () => {
        before = account.upstream.requests.length;
        return (await ask().catch((error) => error)) as APIError;
      };
      const refusal = await eventually(refused, ({ status }) => status !== undefined);
      expect(account.upstream.requests.length, 'calls of the upstream').to.equal(before);
      expect(refusal).to.include({ status: 429, code: 'insufficient_quota', type: 'insufficient_quota' });
      expect(refusal.headers?.get('x-should-retry')).to.equal('false');
      expect(refusal.message).to.contain('daily quota of 2 requests; it begins anew with the next day (UTC)');
      const other = await account.live.gateway.keys.create({ userId: 'usr_2' });
      await account.client.withOptions({ apiKey: other.key }).chat.completions.create({ model: 'm', messages });
    } finally {
      await account.close();
    }
  });

  const noon = Date.parse('2026-01-31T12:00:00Z');
  const cases: [quota: Quota, now: number, isRefused: boolean][] = [
    [{ unit: 'tokens', daily: 100 }, noon, true],
    [{ unit: 'tokens', daily: 101 }, noon, false],
    [{ unit: 'tokens', daily: 101, monthly: 100 }, noon, true],
    [{ unit: 'requests', monthly: 7 }, noon, true],
    [{ unit: 'credits', monthly: 3 }, noon, true],
    [{ unit: 'credits', monthly: 4 }, noon, false],
    [{ unit: 'tokens', daily: 100 }, noon + 12 * 3_600_000, false],
  ];
  for (const [quota, now, isRefused] of cases) {
    it(`of ${JSON.stringify(quota)} ${isRefused ? 'refuses' : 'admits'} a call at ${new Date(now).toISOString()}`, async () => {
      const database = await freshDatabase();
      try {
        const periods = createPeriodModel(database.connection, 'gateway_');
        await periods.insertMany(
          periodsOf({ userId: 'usr_1' }, '2026-01-31').map((period) => ({ ...period, ...used })),
        );
        const enforce = createEnforceQuotas({ periods, quotaOf: () => quota, now: () => now });
        const code = async () => {
          try {
            return await enforce('usr_1');
          } catch (error) {
            return (error as { code: string }).code;
          }
        };
        // read, then remembered
        for (let i = 0; i < 2; i += 1) expect(await code()).to.equal(isRefused ? 'insufficient_quota' : undefined);
      } finally {
        await database.drop();
      }
    });
  }
});
