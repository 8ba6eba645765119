import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import fc from 'fast-check';
import type { Quota } from '../../../src/index.ts';
import { freshDatabase } from '../../support/mongo.ts';
import { eventually } from '../../support/until.ts';
import { type Ledger, openLedger } from './ledger.ts';

interface CallMade {
  readonly kind: 'call';
  readonly userId: string;
  readonly tokens: number;
  readonly startedAt: Date;
}

/** A process counts. */
interface Counted {
  readonly kind: 'count';
  readonly process: number;
}

const callMade: fc.Arbitrary<CallMade> = fc
  .record({ user: fc.nat(1), amount: fc.nat(40), day: fc.nat(1) })
  .map(({ user, amount, day }) => ({
    kind: 'call',
    userId: `usr_${user}`,
    tokens: amount * 50,
    startedAt: new Date(Date.UTC(2026, 0, 30 + 2 * day)),
  }));
const counted: fc.Arbitrary<Counted> = fc.record({ kind: fc.constant('count' as const), process: fc.nat(1) });
const quotaIn = (unit: Quota['unit'], limit: fc.Arbitrary<number>): fc.Arbitrary<Quota> =>
  fc.record({ unit: fc.constant(unit), daily: limit, monthly: limit }, { requiredKeys: ['unit'] });

/** A quota, its thresholds, and what happens at the same moment, one moment after the other. */
const story = fc.record({
  quota: fc.oneof(
    quotaIn('tokens', fc.integer({ min: 1, max: 5_000 })),
    quotaIn('requests', fc.integer({ min: 1, max: 8 })),
    quotaIn('credits', fc.integer({ min: 1, max: 5 })),
  ),
  thresholds: fc.uniqueArray(fc.integer({ min: 1, max: 150 }), { minLength: 1, maxLength: 4 }),
  moments: fc.array(
    fc.array(fc.oneof({ weight: 3, arbitrary: callMade }, { weight: 2, arbitrary: counted }), { maxLength: 4 }),
    { minLength: 1, maxLength: 6 },
  ),
});

/** A credit is a thousand tokens, as the counters of these tests have it. */
function used({ tokens: all }: CallMade, unit: Quota['unit']): number {
  if (unit === 'requests') return 1;
  return unit === 'credits' ? all / 1_000 : all;
}

/** What accounts are told of, in the simplest way there is. */
function reachedBy(steps: readonly (CallMade | Counted)[], quota: Quota, thresholds: readonly number[]): string[] {
  const sums = new Map<string, number>();
  for (const step of steps) {
    if (step.kind === 'count') continue;
    const day = step.startedAt.toISOString().slice(0, 10);
    for (const key of [`${step.userId} daily ${day}`, `${step.userId} monthly ${day.slice(0, 7)}`]) {
      sums.set(key, (sums.get(key) ?? 0) + used(step, quota.unit));
    }
  }
  return [...sums].flatMap(([key, sum]) => {
    const [userId, period] = key.split(' ');
    const limit = quota[period as 'daily' | 'monthly'];
    if (limit === undefined) return [];
    return thresholds.filter((one) => sum * 100 >= one * limit - 1e-6).map((one) => `${userId} ${period} ${one}`);
  });
}

/** Another process has made the same counter at the same moment: the next time it is there. */
function expectDuplicateKey(error: { code?: unknown }): void {
  if (error.code !== 11_000) throw error;
}

const tokens = (monthly: number) => ({ perUser: { unit: 'tokens', monthly } }) as const;

describe('usage counters', function () {
  this.timeout(60_000);
  let database: Awaited<ReturnType<typeof freshDatabase>>;
  let ledger: Ledger;

  beforeEach(async () => {
    database = await freshDatabase();
    ledger = await openLedger(database.connection);
  });
  afterEach(() => database.drop());

  async function expectEven(): Promise<void> {
    const { records, ...others } = await ledger.totals();
    for (const [name, sums] of Object.entries(others)) expect(sums, name).to.deep.equal(records);
  }

  it('are the sums of ended records, each counted once, by day, model, key and month', async () => {
    await ledger.add([
      { inputTokens: 1, outputTokens: 2 },
      { model: 'n', keyId: null, images: 2 },
      { startedAt: new Date('2026-02-01T00:00:00Z'), inputTokens: 5 },
      { userId: 'usr_2' },
    ]);
    const count = ledger.counter();
    expect(await count()).to.equal(4);
    expect(await count()).to.equal(0);
    await ledger.add([{ inputTokens: 7 }]);
    expect(await count()).to.equal(1);
    await expectEven();
    const mine = await ledger.counters.find({ userId: 'usr_1', day: '2026-01-31', model: 'm' }).lean();
    expect(mine).to.have.length(1);
    expect(mine[0]).to.include({ keyId: 'key_1', requests: 2, inputTokens: 8, outputTokens: 12 });
  });

  it('leave out calls in progress', async () => {
    await ledger.add([{}]);
    await ledger.usage.updateMany({}, { $set: { ending: null }, $unset: { counted: 1 } });
    expect(await ledger.counter()()).to.equal(0);
  });

  it('count nothing twice when several processes count at once, and publish each threshold once', async () => {
    await ledger.add(Array.from({ length: 300 }, (_, i) => ({ userId: `usr_${i % 3}` })));
    const quotas = { perUser: { unit: 'requests', daily: 100, monthly: 100 }, thresholds: [50, 80, 100] } as const;
    const processes = Array.from({ length: 4 }, () => ledger.counter(quotas, 20));
    await Promise.all(
      processes.map(async (count) => {
        for (let left = 1, failures = 0; left > 0 && failures < 50; ) {
          left = await count().catch((error) => {
            failures += 1;
            if (error.code !== 11_000) throw error;
            return 1;
          });
        }
      }),
    );
    await expectEven();
    const published = (await ledger.published()).map((data) => `${data.user_id} ${data.period} ${data.threshold}`);
    expect(published).to.have.length(3 * 2 * 3);
    expect(new Set(published).size).to.equal(published.length);
  });

  /** What a process of its own has written, and remembers. */
  async function ownRecords(userIds: readonly string[]): Promise<ReturnType<Ledger['newRecentUsage']>> {
    const recentUsage = ledger.newRecentUsage();
    recentUsage.open();
    await ledger.add(userIds.map((userId) => ({ userId })));
    recentUsage.add(await ledger.usage.find({ userId: { $in: userIds } }).lean());
    return recentUsage;
  }

  it("count a process's own records from memory", async () => {
    const recentUsage = await ownRecords(['usr_1', 'usr_1', 'usr_2']);
    await ledger.usage.updateMany({}, { $set: { inputTokens: 10_000 } });
    const count = ledger.counter({ perUser: { unit: 'requests', daily: 2 } }, 500, { recentUsage, maxWait: 60_000 });
    expect(await count()).to.equal(3);
    expect((await ledger.totals()).counters).to.include({ requests: 3, inputTokens: 30 });
    expect(await ledger.usage.countDocuments({ counted: false })).to.equal(0);
    expect((await ledger.published()).map(({ user_id }) => user_id)).to.deep.equal(['usr_1', 'usr_1']);
    expect(await count()).to.equal(0);
  });

  it("count of a process's own records only those that no other process has counted", async () => {
    const recentUsage = await ownRecords(['usr_1', 'usr_1', 'usr_2']);
    await ledger.counter(undefined, 2)();
    expect(await ledger.counter(undefined, 500, { recentUsage, maxWait: 60_000 })()).to.equal(1);
    await expectEven();
  });

  it('wait for a while before they count the records of other processes', async () => {
    const count = ledger.counter(undefined, 500, { maxWait: 30 });
    await ledger.add([{ id: 'use_1' }]);
    // the look that the first count begins takes so long
    const blockTimeMS = 100;
    const data = {
      namespace: `${database.connection.name}.gateway_usage`,
      failCommands: ['find'],
      blockConnection: true,
    };
    const admin = database.connection.getClient().db('admin');
    await admin.command({ configureFailPoint: 'failCommand', mode: { times: 1 }, data: { ...data, blockTimeMS } });
    expect(await count()).to.equal(0);
    // longer than maxWait, but it begins when the process has looked
    await sleep(35);
    expect(await count()).to.equal(0);
    // until it has looked, and longer than maxWait
    await sleep(2 * blockTimeMS);
    await ledger.add([{ id: 'use_2' }]);
    expect(await count()).to.equal(1);
    expect(await eventually(count, (counted) => counted > 0)).to.equal(1);
    await expectEven();
  });

  it('publish each threshold once per period, with the percentage reached', async () => {
    const count = ledger.counter(tokens(100));
    await ledger.add([{ id: 'use_1', inputTokens: 70, outputTokens: 5 }]);
    await count();
    expect(await ledger.published()).to.deep.equal([]);
    await ledger.add([
      { id: 'use_2', inputTokens: 6, outputTokens: 0 },
      { id: 'use_3', inputTokens: 10, outputTokens: 0 },
    ]);
    await count();
    await ledger.add([{ inputTokens: 30 }, { inputTokens: 30 }]);
    await count();
    expect(await ledger.published()).to.deep.equal([
      { user_id: 'usr_1', threshold: 80, current_usage: 81, period: 'monthly' },
      { user_id: 'usr_1', threshold: 100, current_usage: 131, period: 'monthly' },
    ]);
    await ledger.add([{ startedAt: new Date('2026-02-01T00:00:00Z'), inputTokens: 100, outputTokens: 0 }]);
    await count();
    expect(await ledger.published()).to.have.length(4);
  });

  it('measure a quota in credits by the cost of the records', async () => {
    const count = ledger.counter({ perUser: { unit: 'credits', daily: 1 } });
    await ledger.add([{ inputTokens: 700, outputTokens: 0 }]);
    await count();
    expect(await ledger.published()).to.deep.equal([]);
    await ledger.add([{ inputTokens: 120, outputTokens: 5 }]);
    await count();
    const told = { user_id: 'usr_1', threshold: 80, current_usage: 82.5, period: 'daily' };
    expect(await ledger.published()).to.deep.equal([told]);
  });

  it('count no request where the answer was an error of the upstream, and one where it broke off', async () => {
    const failed = { ending: 'upstream_failed', inputTokens: 0, cachedInputTokens: 0, outputTokens: 0 } as const;
    await ledger.add([failed, failed, failed, { ending: 'upstream_failed', estimated: true }]);
    const count = ledger.counter({ perUser: { unit: 'requests', daily: 2 } });
    expect(await count()).to.equal(4);
    expect((await ledger.totals()).counters).to.include({ requests: 1, inputTokens: 10 });
    expect(await ledger.published()).to.deep.equal([]);
    await ledger.add([{}]);
    await count();
    expect((await ledger.published()).map(({ threshold }) => threshold)).to.deep.equal([80, 100]);
  });

  it('roll back when a transaction fails, and count the records the next time', async () => {
    await ledger.add(Array.from({ length: 10 }, () => ({})));
    const count = ledger.counter({ perUser: { unit: 'requests', daily: 10 } });
    const { collection } = ledger.periods;
    const admin = database.connection.getClient().db('admin');
    const failCommand = { configureFailPoint: 'failCommand', mode: { times: 1 } };
    const data = {
      failCommands: ['update'],
      namespace: `${database.connection.name}.${collection.collectionName}`,
      errorCode: 8000,
    };
    await admin.command({ ...failCommand, data });
    expect(await count().catch(() => 'failed')).to.equal('failed');
    expect((await ledger.totals()).counters.requests).to.equal(0);
    expect(await ledger.published()).to.have.length(0);
    expect(await count()).to.equal(10);
    await expectEven();
    expect(await ledger.published()).to.have.length(2);
  });

  it('are not blocked by an account that no event can be published for', async () => {
    await ledger.add([{ userId: 'x'.repeat(300) }, { userId: 'usr_1' }]);
    expect(await ledger.counter({ perUser: { unit: 'requests', daily: 1 } })()).to.equal(2);
    await expectEven();
    expect((await ledger.published()).map(({ user_id }) => user_id)).to.deep.equal(['usr_1', 'usr_1']);
  });

  it('agree with a simple model after any interleaving of calls and counting processes, whatever the quota', async () => {
    await fc.assert(
      fc.asyncProperty(story, async ({ quota, thresholds, moments }) => {
        const own = await freshDatabase();
        try {
          ledger = await openLedger(own.connection);
          const quotas = { perUser: quota, thresholds };
          const processes = [ledger.counter(quotas, 2), ledger.counter(quotas, 3)];
          const take = async (one: CallMade | Counted) => {
            if (one.kind === 'count') return processes[one.process]?.().catch(expectDuplicateKey);
            await ledger.add([
              { userId: one.userId, inputTokens: one.tokens, outputTokens: 0, startedAt: one.startedAt },
            ]);
          };
          for (const moment of moments) await Promise.all(moment.map(take));
          for (let left = 1; left > 0; ) left = (await processes[0]?.()) ?? 0;
          await expectEven();
          const told = await ledger.published();
          const reached = told.map(({ user_id, period, threshold }) => `${user_id} ${period} ${threshold}`);
          expect(reached.sort()).to.deep.equal(reachedBy(moments.flat(), quota, thresholds).sort());
          for (const { threshold, current_usage } of told) {
            expect(current_usage).to.be.at.least(Number(threshold) - 0.005);
          }
        } finally {
          await own.drop();
        }
      }),
      { numRuns: 15 },
    );
  });
});
