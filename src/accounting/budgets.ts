import { refuse } from '../errors.ts';
import { checkUserId } from '../ids.ts';
import type { DatabaseClock } from '../mongo/clock.ts';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import {
  type Budget,
  type BudgetPeriod,
  type BudgetUnit,
  type BudgetUsage,
  type KeyBudgets,
  toBudgets,
} from '../options/budgets.ts';
import type { AccountBudgetsModel, AccountingModels, PeriodDocument } from './model.ts';
import { microCreditsPerCredit } from './price.ts';
import { dayOf, keyTotalId, periodsOf, summed } from './sums.ts';

/** The budgets of accounts and keys. */
export type BudgetService = ReturnType<typeof createBudgetService>;

/** @param hasPrices whether calls have prices */
export function createBudgetService(readUsed: ReadUsed, accountBudgets: AccountBudgetsModel, hasPrices: boolean) {
  const collection = durableCollection(accountBudgets);

  /** The budgets of an account as they are stored. */
  async function ofAccount(userId: string): Promise<readonly Budget[]> {
    return (await collection.findOne({ _id: userId }))?.budgets ?? [];
  }

  async function usageOf(userId: string, budgets: readonly Budget[]): Promise<BudgetUsage[]> {
    if (budgets.length === 0) return [];
    const used = await readUsed.ofAccount(userId, needTotal(budgets));
    return budgets.map((budget) => toBudgetUsage(budget, used));
  }

  const ofKeys: KeyBudgets = {
    check(budgets) {
      const i = budgets.findIndex(({ credits }) => credits !== undefined);
      if (hasPrices || i === -1) return;
      const param = `budgets[${i}].credits`;
      refuse('invalid_value', param, 'this gateway has no prices, so it counts no credits; use tokens or requests');
    },

    async usage(userId, keys) {
      const limited = keys.filter(({ budgets }) => budgets.length > 0);
      if (limited.length === 0) return new Map();
      const withTotal = limited.some(({ budgets }) => needTotal(budgets));
      const ids = limited.map(({ id }) => id);
      const used = await readUsed.ofKeys(userId, ids, withTotal);
      const usageOfKey = (id: string, budget: Budget) => toBudgetUsage(budget, used.get(id) as UsedAmounts);
      return new Map(limited.map(({ id, budgets }) => [id, budgets.map((budget) => usageOfKey(id, budget))]));
    },
  };

  return {
    ofAccount,
    ofKeys,

    /**
     * The budgets of an account, and what it has used of them.
     * @throws GatewayError `invalid_value`
     */
    async get(userId: string): Promise<BudgetUsage[]> {
      checkUserId(userId);
      return usageOf(userId, await ofAccount(userId));
    },

    /**
     * Sets the budgets of an account, which need not be known before: in every process within a second. An empty list removes them.
     * @throws GatewayError `invalid_value`
     */
    async set(userId: string, given: readonly Budget[]): Promise<BudgetUsage[]> {
      checkUserId(userId);
      const budgets = toBudgets(given);
      ofKeys.check(budgets);
      await collection.updateOne({ _id: userId }, { $set: { budgets } }, { upsert: true });
      return usageOf(userId, budgets);
    },
  };
}

/** When the period that a moment is in ends, UTC; `null` for `total`. */
export function resetOf(period: BudgetPeriod, at: Date): Date | null {
  if (period === 'total') return null;
  const [year, month] = [at.getUTCFullYear(), at.getUTCMonth()];
  return new Date(period === 'day' ? Date.UTC(year, month, at.getUTCDate() + 1) : Date.UTC(year, month + 1, 1));
}

/** In the units of budgets. */
function usedUnits({ tokens, requests, microCredits }: Amounts): Record<BudgetUnit, number> {
  return { tokens, requests, credits: microCredits / microCreditsPerCredit };
}

/** A budget with what has been used of it. */
function toBudgetUsage(budget: Budget, used: UsedAmounts): BudgetUsage {
  const { period } = budget;
  return { ...budget, used: usedUnits(used[period]), resetsAt: resetOf(period, used.at) };
}

/** Whether one of these budgets is for all that was ever used. */
export function needTotal(budgets: readonly Budget[]): boolean {
  return budgets.some(({ period }) => period === 'total');
}

/** What has been counted in one period. */
export interface Amounts {
  /** Input and output together. */
  readonly tokens: number;
  readonly requests: number;
  readonly microCredits: number;
}

/** What has been counted until a moment: in its day, in its month (UTC), and from the first call on. */
export interface UsedAmounts extends Readonly<Record<BudgetPeriod, Amounts>> {
  /** By the database's clock. */
  readonly at: Date;
}

export type ReadUsed = ReturnType<typeof createReadUsed>;

/** How long the database can take to say what a key has used. Milliseconds. */
const maxTimeMS = 1_000;

type CountedSums = Pick<PeriodDocument, 'requests' | 'inputTokens' | 'outputTokens' | 'microCredits'>;

/** Adds up what is stored. */
function amountsIn(documents: readonly CountedSums[]): Amounts {
  const sum = { tokens: 0, requests: 0, microCredits: 0 };
  for (const { requests, inputTokens, outputTokens, microCredits = 0 } of documents) {
    sum.tokens += inputTokens + outputTokens;
    sum.requests += requests;
    sum.microCredits += microCredits;
  }
  return sum;
}

/** Every month of an account. */
function monthsOf(userId: string) {
  const start = JSON.stringify([userId, 'monthly', '']).slice(0, -'""]'.length);
  return { $gte: start, $lt: `${start}~` };
}

/** Reads what has been counted. `total` is read only if it is asked for; otherwise it is what the month is. */
export function createReadUsed({
  clock,
  ...models
}: Pick<AccountingModels, 'counters' | 'periods' | 'keyTotals'> & { readonly clock: DatabaseClock }) {
  const counters = durableCollection(models.counters);
  const periods = durableCollection(models.periods);
  const keyTotals = durableCollection(models.keyTotals);

  /** The totals of keys of an account, by the id of the key. A key that has not been used since there are totals has none. */
  async function totalsOf(userId: string, keyIds: readonly string[]): Promise<ReadonlyMap<string, Amounts>> {
    const ids = keyIds.map((keyId) => keyTotalId(userId, keyId));
    const totals = await keyTotals.find({ _id: { $in: ids } }, { ...inOneBatch, maxTimeMS }).toArray();
    return new Map(totals.map((total) => [total.keyId, amountsIn([total])]));
  }

  return {
    async ofAccount(userId: string, withTotal: boolean): Promise<UsedAmounts> {
      const at = await clock.now();
      const [day, month] = periodsOf({ userId }, dayOf(at)).map(({ _id }) => _id) as [string, string];
      const filter = withTotal ? { $or: [{ _id: day }, { _id: monthsOf(userId) }] } : { _id: { $in: [day, month] } };
      const documents = await periods.find(filter, inOneBatch).toArray();
      const within = (id: string) => amountsIn(documents.filter(({ _id }) => _id === id));
      const total = amountsIn(documents.filter(({ _id }) => _id !== day));
      return { at, day: within(day), month: within(month), total };
    },

    /** @returns by the id of the key; a key that has used nothing is in it too */
    async ofKeys(userId: string, keyIds: readonly string[], withTotal: boolean) {
      const at = await clock.now();
      const day = dayOf(at);
      const month = `${day.slice(0, 7)}-01`;
      // the shortest period that a counter is in
      const period = {
        $cond: [{ $gte: ['$day', day] }, 'day', { $cond: [{ $gte: ['$day', month] }, 'month', 'total'] }],
      };
      const totals = withTotal ? await totalsOf(userId, keyIds) : new Map<string, Amounts>();
      // all counters of a key are read only if they were not added up before
      const unsummed = withTotal ? keyIds.filter((id) => !totals.has(id)) : [];
      const ofMonth = { keyId: { $in: [...keyIds] }, day: { $gte: month } };
      const filter = unsummed.length === 0 ? ofMonth : { $or: [ofMonth, { keyId: { $in: unsummed } }] };
      const groups = await counters
        .aggregate<CountedSums & { readonly _id: { readonly keyId: string; readonly period: BudgetPeriod } }>(
          [{ $match: { userId, ...filter } }, { $group: { _id: { keyId: '$keyId', period }, ...summed } }],
          { ...inOneBatch, maxTimeMS },
        )
        .toArray();
      return new Map<string, UsedAmounts>(
        keyIds.map((id) => {
          const ofKey = groups.filter(({ _id }) => _id.keyId === id);
          const within = (...names: readonly BudgetPeriod[]) =>
            amountsIn(ofKey.filter(({ _id }) => names.includes(_id.period)));
          const total = totals.get(id) ?? within('day', 'month', 'total');
          return [id, { at, day: within('day'), month: within('day', 'month'), total }];
        }),
      );
    },
  };
}
