import { expect } from 'chai';
import type { Connection } from 'mongoose';
import { createAccountingModels, type UsageDocument, type UsageSums } from '../../../src/accounting/model.ts';
import type { EventDocument } from '../../../src/events/model.ts';
import { until } from '../../support/until.ts';
import { openUsageRecords } from '../usage/records.ts';
import type { AnsweredCall } from './crowd.ts';

/** What the balances are held against. Credits are those of the options; a micro-credit is a millionth of one. */
export interface Terms {
  readonly userId: string;
  /** By model; `'*'` for every other. Credits for a million tokens. */
  readonly prices: Readonly<Record<string, { input: number; cachedInput: number; output: number }>>;
  /** Credits in all. */
  readonly toppedUp: number;
  /** In credits. */
  readonly quota: { readonly daily: number; readonly monthly: number; readonly thresholds: readonly number[] };
}

type Charged = Pick<UsageDocument, 'model' | 'inputTokens' | 'cachedInputTokens' | 'outputTokens' | 'startedAt'>;

const micro = 1_000_000;
const totalOf = (all: readonly UsageSums[]) => ({
  requests: sumOf(all.map(({ requests }) => requests)),
  inputTokens: sumOf(all.map(({ inputTokens }) => inputTokens)),
  cachedInputTokens: sumOf(all.map(({ cachedInputTokens }) => cachedInputTokens)),
  outputTokens: sumOf(all.map(({ outputTokens }) => outputTokens)),
});
const sumOf = (numbers: readonly number[]) => numbers.reduce((sum, one) => sum + one, 0);

/** Everything that is written about what one account used and paid. */
export function expectedBalances(connection: Connection, { userId, prices, toppedUp, quota }: Terms) {
  const { counters, periods, ledger, accounts } = createAccountingModels(connection, 'gateway_');
  const { usage, sweep } = openUsageRecords(connection, { longestCall: 0, clockMargin: 0 });

  async function published(type: string): Promise<Record<string, unknown>[]> {
    const events = connection.collection<EventDocument>('gateway_events');
    const found = await events.find({ userId, type }, { promoteBuffers: true }).sort({ _id: 1 }).toArray();
    return found.map(({ body }) => JSON.parse(String(body)).data);
  }

  function costOf(record: Charged): number {
    const price = prices[record.model ?? ''] ?? prices['*'];
    if (!price) throw new Error("there is no price '*'");
    const { inputTokens, cachedInputTokens, outputTokens } = record;
    return (
      (inputTokens - cachedInputTokens) * price.input +
      cachedInputTokens * price.cachedInput +
      outputTokens * price.output
    );
  }

  /** Resolves when nothing is left to be written, closed, counted or charged. */
  async function settled(calls: readonly AnsweredCall[], within: number): Promise<void> {
    const deadline = performance.now() + within;
    const expected = calls.map(({ requestId }) => requestId);
    const recorded = () => usage.countDocuments({ requestId: { $in: expected }, ending: { $ne: null } });
    await until(async () => (await recorded()) === expected.length, within, 'each call has a record');
    await sweep();
    const uncounted = () => usage.countDocuments({ counted: { $ne: true } });
    await until(async () => (await uncounted()) === 0, deadline - performance.now(), 'all records are counted');
  }

  /** Holds ledger, balance, counters and events against the records. @returns the balance, in micro-credits */
  async function expectEven(): Promise<number> {
    const records = await usage.find({ userId }).lean();
    const balance = toppedUp * micro - sumOf(records.map(costOf));
    await expectCharged(records, balance);
    for (const [name, counted] of [
      ['counters', await counters.find({ userId }).lean()],
      ['days', await periods.find({ userId, period: 'daily' }).lean()],
      ['months', await periods.find({ userId, period: 'monthly' }).lean()],
    ] as const) {
      expect(totalOf(counted), name).to.deep.equal(totalOf(records.map((record) => ({ ...record, requests: 1 }))));
    }
    await expectToldOnce(records, balance);
    return balance;
  }

  async function expectCharged(records: readonly (Charged & { _id: string })[], balance: number): Promise<void> {
    const entries = await ledger.find({ userId }).lean();
    const debits = entries.filter(({ kind }) => kind === 'usage').map(({ _id, amount }) => `${_id} ${-amount}`);
    const costs = records.map((record) => `${record._id} ${costOf(record)}`);
    expect(debits.sort(), 'debits').to.deep.equal(costs.sort());
    expect(sumOf(entries.map(({ amount }) => amount)), 'sum of the ledger').to.equal(balance);
    const account = await accounts.findById(userId).lean();
    expect(account, 'account').to.include({ balance, low: true, depleted: balance <= 0 });
  }

  /** The thresholds that these records reach, each once in its period. */
  function thresholdsOf(records: readonly Charged[], period: 'daily' | 'monthly'): string[] {
    const spent = new Map<string, number>();
    for (const record of records) {
      const start = record.startedAt.toISOString().slice(0, period === 'daily' ? 10 : 7);
      spent.set(start, (spent.get(start) ?? 0) + costOf(record));
    }
    return [...spent.values()].flatMap((sum) =>
      quota.thresholds
        .filter((threshold) => sum * 100 >= threshold * quota[period] * micro)
        .map((threshold) => `${period} ${threshold}`),
    );
  }

  async function expectToldOnce(records: readonly Charged[], balance: number): Promise<void> {
    const reached = [...thresholdsOf(records, 'daily'), ...thresholdsOf(records, 'monthly')];
    const told = (await published('usage.threshold')).map(({ period, threshold }) => `${period} ${threshold}`);
    expect(told.sort(), 'usage.threshold').to.deep.equal(reached.sort());
    expect(await published('credits.low'), 'credits.low').to.have.length(1);
    const depleted = balance <= 0 ? [{ user_id: userId, credits_remaining: 0 }] : [];
    expect(await published('credits.depleted'), 'credits.depleted').to.deep.equal(depleted);
  }

  /** Holds the records against what was answered: each call once, with what its answer says it used. */
  async function expectRecorded(calls: readonly AnsweredCall[]): Promise<void> {
    const records = await usage.find({ userId, ending: 'complete' }).lean();
    const used = (one: { inputTokens: number; outputTokens: number }) => `${one.inputTokens} ${one.outputTokens}`;
    const byRequest = new Map<string, string[]>();
    for (const record of records) {
      byRequest.set(record.requestId, [...(byRequest.get(record.requestId) ?? []), used(record)]);
    }
    const wrong = calls.filter((call) => {
      const [first, ...others] = byRequest.get(call.requestId) ?? [];
      return first === undefined || others.length > 0 || (call.usage !== undefined && used(call.usage) !== first);
    });
    expect(wrong, 'calls without the one record of theirs').to.deep.equal([]);
  }

  return {
    settled,
    expectEven,
    expectRecorded,
    records: () => usage.countDocuments({ userId }),
  };
}
