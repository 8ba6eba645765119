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
import type {
  AccountBudgetsModel,
  CounterModel,
  KeyTotalDocument,
  KeyTotalModel,
  PeriodDocument,
  PeriodModel,
} from './model.ts';
import { microCreditsPerCredit } from './price.ts';
import { dayOf, keyTotalId, periodsOf } from './sums.ts';

/** The budgets of accounts and keys. */
export interface BudgetService {
  /**
   * The budgets of an account, and what it has used of them.
   * @throws GatewayError `invalid_value`
   */
  get(userId: string): Promise<BudgetUsage[]>;
  /**
   * Sets the budgets of an account, which need not be known before: in every process within a second. An empty list removes them.
   * @throws GatewayError `invalid_value`
   */
  set(userId: string, budgets: readonly Budget[]): Promise<BudgetUsage[]>;
  /** The budgets of an account as they are stored. */
  ofAccount(userId: string): Promise<readonly Budget[]>;
  readonly ofKeys: KeyBudgets;
}

/** @param hasPrices whether calls have prices */
export function createBudgetService(
  readUsed: ReadUsed,
  accountBudgets: AccountBudgetsModel,
  hasPrices: boolean,
): BudgetService {
  async function ofAccount(userId: string): Promise<readonly Budget[]> {
    return (await accountBudgets.findById(userId).lean())?.budgets ?? [];
  }

  async function usageOf(userId: string, budgets: readonly Budget[]): Promise<BudgetUsage[]> {
    if (budgets.length === 0) return [];
    const used = await readUsed.ofAccount(userId, needTotal(budgets));
    return budgets.map((budget) => toBudgetUsage(budget, used));
  }

  function check(budgets: readonly Budget[]): void {
    const i = budgets.findIndex(({ credits }) => credits !== undefined);
    if (hasPrices || i === -1) return;
    const param = `budgets[${i}].credits`;
    refuse('invalid_value', param, 'this gateway has no prices, so it counts no credits; use tokens or requests');
  }

  return {
    ofAccount,

    async get(userId) {
      checkUserId(userId);
      return usageOf(userId, await ofAccount(userId));
    },

    async set(userId, given) {
      checkUserId(userId);
      const budgets = toBudgets(given);
      check(budgets);
      await accountBudgets.updateOne({ _id: userId }, { $set: { budgets } }, { upsert: true });
      return usageOf(userId, budgets);
    },

    ofKeys: {
      check,
      async usage(userId, keys) {
        const limited = keys.filter(({ budgets }) => budgets.length > 0);
        if (limited.length === 0) return new Map();
        const withTotal = limited.some(({ budgets }) => needTotal(budgets));
        const ids = limited.map(({ id }) => id);
        const used = await readUsed.ofKeys(userId, ids, withTotal);
        return new Map(
          limited.map(({ id, budgets }) => {
            const ofKey = used.get(id);
            return [id, ofKey ? budgets.map((budget) => toBudgetUsage(budget, ofKey)) : []];
          }),
        );
      },
    },
  };
}

/** When the period that a moment is in ends, UTC; `null` for `total`. Pure. */
export function resetOf(period: BudgetPeriod, at: Date): Date | null {
  if (period === 'total') return null;
  const [year, month] = [at.getUTCFullYear(), at.getUTCMonth()];
  return new Date(period === 'day' ? Date.UTC(year, month, at.getUTCDate() + 1) : Date.UTC(year, month + 1, 1));
}

/** In the units of budgets. Pure. */
export function usedUnits({ tokens, requests, microCredits }: Amounts): Record<BudgetUnit, number> {
  return { tokens, requests, credits: microCredits / microCreditsPerCredit };
}

/** A budget with what has been used of it. Pure. */
function toBudgetUsage(budget: Budget, used: UsedAmounts): BudgetUsage {
  const { period } = budget;
  return { ...budget, used: usedUnits(used[period]), resetsAt: resetOf(period, used.at) };
}

/** Whether one of these budgets is for all that was ever used. Pure. */
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

/** Reads what has been counted. `total` is read only if it is asked for; otherwise it is what the month is. */
export interface ReadUsed {
  ofAccount(userId: string, withTotal: boolean): Promise<UsedAmounts>;
  /** @returns by the id of the key; a key that has used nothing is in it too */
  ofKeys(userId: string, keyIds: readonly string[], withTotal: boolean): Promise<ReadonlyMap<string, UsedAmounts>>;
}

export interface ReadUsedDeps {
  readonly counters: CounterModel;
  readonly periods: PeriodModel;
  readonly keyTotals: KeyTotalModel;
  readonly clock: DatabaseClock;
}

/** How long the database can take to say what a key has used. Milliseconds. */
const maxTimeMS = 1_000;

const nothing: Amounts = { tokens: 0, requests: 0, microCredits: 0 };

function amountsOf({
  requests,
  inputTokens,
  outputTokens,
  microCredits = 0,
}: PeriodDocument | KeyTotalDocument): Amounts {
  return { tokens: inputTokens + outputTokens, requests, microCredits };
}

function sumOf(all: readonly Amounts[]): Amounts {
  return all.reduce(
    (sum, { tokens, requests, microCredits }) => ({
      tokens: sum.tokens + tokens,
      requests: sum.requests + requests,
      microCredits: sum.microCredits + microCredits,
    }),
    nothing,
  );
}

/** Every month of an account. */
function monthsOf(userId: string) {
  const [start] = JSON.stringify([userId, 'monthly', '']).split(/""\]$/) as [string];
  return { $gte: start, $lt: `${start}~` };
}

const counted = {
  tokens: { $add: ['$inputTokens', '$outputTokens'] },
  requests: '$requests',
  microCredits: { $ifNull: ['$microCredits', 0] },
} as const satisfies Record<keyof Amounts, unknown>;

/** The sums of a group of counters from a day on. */
function sumsFrom(name: BudgetPeriod, from: string): [name: string, sum: object][] {
  const isIn = { $gte: ['$day', from] };
  return Object.entries(counted).map(([unit, amount]) => [`${name}_${unit}`, { $sum: { $cond: [isIn, amount, 0] } }]);
}

function amountsIn(group: Readonly<Record<string, number>> | undefined, name: BudgetPeriod): Amounts {
  const of = (unit: keyof Amounts) => group?.[`${name}_${unit}`] ?? 0;
  return { tokens: of('tokens'), requests: of('requests'), microCredits: of('microCredits') };
}

export function createReadUsed({ clock, ...models }: ReadUsedDeps): ReadUsed {
  const counters = durableCollection(models.counters);
  const periods = durableCollection(models.periods);
  const keyTotals = durableCollection(models.keyTotals);

  /** The totals of keys of an account, by the id of the key. A key that has not been used since there are totals has none. */
  async function totalsOf(userId: string, keyIds: readonly string[]): Promise<ReadonlyMap<string, Amounts>> {
    const ids = keyIds.map((keyId) => keyTotalId(userId, keyId));
    const totals = await keyTotals.find({ _id: { $in: ids } }, { ...inOneBatch, maxTimeMS }).toArray();
    return new Map(totals.map((total) => [total.keyId, amountsOf(total)]));
  }

  return {
    async ofAccount(userId, withTotal) {
      const at = await clock.now();
      const [day, month] = periodsOf({ userId }, dayOf(at)).map(({ _id }) => _id) as [string, string];
      const filter = withTotal ? { $or: [{ _id: day }, { _id: monthsOf(userId) }] } : { _id: { $in: [day, month] } };
      const documents = await periods.find(filter, inOneBatch).toArray();
      const of = (id: string) => sumOf(documents.filter(({ _id }) => _id === id).map(amountsOf));
      return {
        at,
        day: of(day),
        month: of(month),
        total: sumOf(documents.filter(({ _id }) => _id !== day).map(amountsOf)),
      };
    },

    async ofKeys(userId, keyIds, withTotal) {
      const at = await clock.now();
      const day = dayOf(at);
      const month = `${day.slice(0, 7)}-01`;
      const sums = [...sumsFrom('day', day), ...sumsFrom('month', month), ...sumsFrom('total', '')];
      const totals = withTotal ? await totalsOf(userId, keyIds) : new Map<string, Amounts>();
      // all counters of a key are read only if they were not added up before
      const unsummed = withTotal ? keyIds.filter((id) => !totals.has(id)) : [];
      const ofMonth = { keyId: { $in: [...keyIds] }, day: { $gte: month } };
      const filter = unsummed.length === 0 ? ofMonth : { $or: [ofMonth, { keyId: { $in: unsummed } }] };
      const groups = await counters
        .aggregate<{ _id: string } & Record<string, number>>(
          [{ $match: { userId, ...filter } }, { $group: { _id: '$keyId', ...Object.fromEntries(sums) } }],
          { ...inOneBatch, maxTimeMS },
        )
        .toArray();
      const byKey = new Map<string, Record<string, number>>(groups.map((group) => [group._id, group]));
      return new Map(
        keyIds.map((id) => {
          const group = byKey.get(id);
          const of = (name: BudgetPeriod) => amountsIn(group, name);
          return [id, { at, day: of('day'), month: of('month'), total: totals.get(id) ?? of('total') }];
        }),
      );
    },
  };
}
