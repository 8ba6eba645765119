import { expect } from 'chai';
import type { Connection } from 'mongoose';
import type { Budget } from '../../../src/index.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { type Ledger, openLedger } from '../usage/ledger.ts';
import { openBudgets } from './harness.ts';

const now = new Date('2026-01-31T12:00:00Z');
const day = 86_400_000;
const spent = { requests: 1, inputTokens: 6, cachedInputTokens: 0, outputTokens: 4, images: 0, microCredits: 5 };
const models = ['m', 'n', 'o'];

describe('the total of a key', () => {
  let connection: Connection;
  let drop: () => Promise<void>;
  let ledger: Ledger;

  before(async () => {
    ({ connection, drop } = await freshDatabase());
    ledger = await openLedger(connection);
  });
  after(() => drop());

  /** Counters of a key that was used before there were totals: 10 tokens a day and model. */
  async function useBefore(keyId: string, days: number, userId = 'usr_1') {
    const counters = Array.from({ length: days }, (_, i) =>
      new Date(now.getTime() - i * day).toISOString().slice(0, 10),
    );
    await ledger.counters.insertMany(
      counters.flatMap((on) =>
        models.map((model) => ({
          _id: JSON.stringify([userId, on, model, keyId]),
          userId,
          day: on,
          model,
          keyId,
          ...spent,
        })),
      ),
    );
  }

  const budgetsNow = () => openBudgets(connection, () => now);
  const totalOf = async (keyId: string) =>
    (await budgetsNow().readUsed().ofKeys('usr_1', [keyId], true)).get(keyId)?.total;

  /** How many documents the server looks at for some commands. */
  async function examined(work: () => Promise<unknown>): Promise<number> {
    await connection.db?.command({ profile: 2 });
    await work();
    await connection.db?.command({ profile: 0 });
    const commands = await connection
      .collection('system.profile')
      .find({ op: { $in: ['query', 'command'] } })
      .toArray();
    await connection.collection('system.profile').drop();
    return commands.reduce((sum, { docsExamined = 0 }) => sum + docsExamined, 0);
  }

  it('is read without the counters of earlier months', async () => {
    await useBefore('key_old', 1_000);
    const before = { tokens: 30_000, requests: 3_000, microCredits: 15_000 };
    expect(await totalOf('key_old')).to.deep.equal(before);
    await ledger.add([{ keyId: 'key_old', inputTokens: 1, outputTokens: 1 }]);
    await ledger.counter()();
    const after = { tokens: 30_002, requests: 3_001, microCredits: 15_000 + 2_000 };
    let total: unknown;
    const count = await examined(async () => {
      total = await totalOf('key_old');
    });
    expect(total).to.deep.equal(after);
    // the total, and the counters of this month
    expect(count).to.be.within(1, 1 + 31 * models.length);
  });

  it('enforces a budget before and after the total is stored', async () => {
    await useBefore('key_spent', 2);
    const budgets: Budget[] = [{ period: 'total', tokens: 62 }];
    const refusal = async (budget = budgets) => {
      const admit = budgetsNow().check();
      const principal = { userId: 'usr_1', keyId: 'key_spent', budgets: budget };
      const call = { requestId: 'req_1', principal, endpoint: '/chat/completions', model: 'm', stream: false };
      const answer = Promise.resolve(admit(call, 1, { choices: 1, maxTokens: 0 }));
      return answer.then(
        () => undefined,
        ({ code, message }) => `${code}: ${message}`,
      );
    };
    expect(await refusal()).to.equal(undefined);
    expect(await refusal([{ period: 'total', tokens: 60 }])).to.match(/^insufficient_quota: .* \(60 used\)/);
    await ledger.add([{ keyId: 'key_spent', inputTokens: 1, outputTokens: 1 }]);
    await ledger.counter()();
    expect(await refusal()).to.match(/^insufficient_quota: .*total budget of 62 tokens \(62 used\)/);
  });

  it('starts once with the earlier counters, even if several processes count its key at the same time', async () => {
    await useBefore('key_shared', 2);
    await useBefore('key_shared', 2, 'usr_2');
    await ledger.add(Array.from({ length: 60 }, (_, i) => ({ keyId: 'key_shared', userId: `usr_${1 + (i % 2)}` })));
    const processes = Array.from({ length: 4 }, () => ledger.counter(undefined, 7));
    await Promise.all(
      processes.map(async (count) => {
        for (let left = 1; left > 0; ) {
          left = await count().catch((error) => {
            if (error.code !== 11_000) throw error;
            return 1;
          });
        }
      }),
    );
    const totals = await ledger.keyTotals.find({ keyId: 'key_shared' }).sort({ userId: 1 }).lean();
    expect(totals.map(({ userId, requests, inputTokens }) => [userId, requests, inputTokens])).to.deep.equal([
      ['usr_1', 36, 36 + 300],
      ['usr_2', 36, 36 + 300],
    ]);
  });
});
