import { GatewayError, refuse } from '../errors.ts';
import type { Principal } from '../http/principal.ts';
import { checkUserId } from '../ids.ts';
import type { DatabaseClock } from '../mongo/clock.ts';
import { durableCollection, inOneBatch } from '../mongo/collection.ts';
import { withTimeout } from '../mongo/periodic.ts';
import {
  type Budget,
  type BudgetPeriod,
  type BudgetUnit,
  type BudgetUsage,
  budgetUnits,
  type KeyBudgets,
  toBudgets,
} from '../options/budgets.ts';
import type { Logger, Quota } from '../options/options.ts';
import type { AccountBudgetsModel, AccountingModels, PeriodDocument } from './model.ts';
import { microCreditsPerCredit } from './price.ts';
import { dayOf, keyTotalId, periodsOf, summed } from './sums.ts';
import type { QuotaOf } from './thresholds.ts';

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

/** When the period that a moment is in ends, UTC; `null` for `total`. Pure. */
function resetOf(period: BudgetPeriod, at: Date): Date | null {
  if (period === 'total') return null;
  const [year, month] = [at.getUTCFullYear(), at.getUTCMonth()];
  return new Date(period === 'day' ? Date.UTC(year, month, at.getUTCDate() + 1) : Date.UTC(year, month + 1, 1));
}

/** In the units of budgets. Pure. */
function usedUnits({ tokens, requests, microCredits }: Amounts): Record<BudgetUnit, number> {
  return { tokens, requests, credits: microCredits / microCreditsPerCredit };
}

/** A budget with what has been used of it. Pure. */
function toBudgetUsage(budget: Budget, used: UsedAmounts): BudgetUsage {
  const { period } = budget;
  return { ...budget, used: usedUnits(used[period]), resetsAt: resetOf(period, used.at) };
}

/** Whether one of these budgets is for all that was ever used. Pure. */
function needTotal(budgets: readonly Budget[]): boolean {
  return budgets.some(({ period }) => period === 'total');
}

/** What has been counted in one period. */
interface Amounts {
  /** Input and output together. */
  readonly tokens: number;
  readonly requests: number;
  readonly microCredits: number;
}

/** What has been counted until a moment: in its day, in its month (UTC), and from the first call on. */
interface UsedAmounts extends Readonly<Record<BudgetPeriod, Amounts>> {
  /** By the database's clock. */
  readonly at: Date;
}

export type ReadUsed = ReturnType<typeof createReadUsed>;

/** How long the database can take to say what a key has used. Milliseconds. */
const maxTimeMS = 1_000;

type CountedSums = Pick<PeriodDocument, 'requests' | 'inputTokens' | 'outputTokens' | 'microCredits'>;

/** Adds up what is stored. Pure. */
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
    async ofKeys(
      userId: string,
      keyIds: readonly string[],
      withTotal: boolean,
    ): Promise<ReadonlyMap<string, UsedAmounts>> {
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
      return new Map(
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

/** Resolves, or returns at once, where a caller may make a call. @throws GatewayError `insufficient_quota` */
export type EnforceBudgets = (caller: Principal) => Promise<undefined> | undefined;

export interface EnforceBudgetsDeps {
  readonly readUsed: ReadUsed;
  /** `undefined` where no quotas are enforced. */
  readonly quotaOf: QuotaOf | undefined;
  /** The budgets of accounts of callers that do not tell them. @default none */
  readonly readAccountBudgets?: (caller: Principal) => ReturnType<ReadAccountBudgets> | undefined;
  readonly logger: Logger;
}

/** A budget, and what it is called in the refusal. */
interface Rule {
  readonly owner: 'This account' | 'This API key';
  readonly kind: 'quota' | 'budget';
  readonly budget: Budget;
}

const adjectives: Readonly<Record<BudgetPeriod, string>> = { day: 'daily', month: 'monthly', total: 'total' };

/** @throws GatewayError `insufficient_quota` if one of the budgets is used up */
function enforceRules(rules: readonly Rule[], used: UsedAmounts | undefined): void {
  if (!used) return;
  for (const { owner, kind, budget } of rules) {
    const { period } = budget;
    const amounts = usedUnits(used[period]);
    const unit = budgetUnits.find((name) => amounts[name] >= (budget[name] ?? Number.POSITIVE_INFINITY));
    if (!unit) continue;
    const reset = resetOf(period, used.at);
    const ending = reset ? `it resets at ${reset.toISOString()}` : 'it does not reset';
    const name = `${adjectives[period]} ${kind} of ${budget[unit]} ${unit}`;
    const message = `${owner} has used up its ${name} (${amounts[unit]} used); ${ending}`;
    throw new GatewayError('insufficient_quota', message, { headers: { 'x-should-retry': 'false' } });
  }
}

/** A quota of the option `quotas`, as the rules that it comes to. */
function quotaRules(quota: Quota | undefined): Rule[] {
  if (!quota) return [];
  const { unit, daily, monthly } = quota;
  const maxima = [['day', daily] as const, ['month', monthly] as const];
  return maxima.flatMap(([period, maximum]) =>
    maximum === undefined ? [] : [{ owner: 'This account', kind: 'quota', budget: { period, [unit]: maximum } }],
  );
}

function budgetRules(owner: Rule['owner'], budgets: readonly Budget[]): Rule[] {
  return budgets.map((budget) => ({ owner, kind: 'budget', budget }));
}

const none: readonly Budget[] = [];

/** Some rules, and whose usage decides them. */
interface Check {
  readonly rules: readonly Rule[];
  readonly cache: ReadCache<UsedAmounts>;
  /** The key of that usage in the cache. */
  readonly key: string;
  readonly read: () => Promise<UsedAmounts>;
}

/** Enforces rules by what is known; resolves if something had to be read. @throws GatewayError `insufficient_quota` */
function enforceChecks(checks: readonly Check[]): Promise<undefined> | undefined {
  const unknown = checks.filter(({ rules, cache, key }) => {
    const used = cache.fresh(key);
    enforceRules(rules, used);
    return !used;
  });
  if (unknown.length === 0) return undefined;
  const enforced = unknown.map(async ({ rules, cache, key, read }) => enforceRules(rules, await cache.read(key, read)));
  return Promise.all(enforced).then(() => undefined);
}

/**
 * Refuses calls when a quota or a budget of the account or the key is used up, by what has been counted: about a second after a
 * call has ended. So a caller may exceed a budget by what it uses in that second, and by its calls under way. Nothing is
 * read for a key of the gateway's own that has none of these.
 */
export function createEnforceBudgets(deps: EnforceBudgetsDeps): EnforceBudgets {
  const { readUsed, quotaOf, readAccountBudgets, logger } = deps;
  const accounts = new ReadCache<UsedAmounts>(logger);
  const keys = new ReadCache<UsedAmounts>(logger);

  function enforce({ userId, keyId = '', budgets = none }: Principal, accountBudgets: readonly Budget[]) {
    const quota = quotaOf?.(userId);
    if (!quota && budgets.length === 0 && accountBudgets.length === 0) return undefined;
    const checks: Check[] = [];
    const ofAccount = [...quotaRules(quota), ...budgetRules('This account', accountBudgets)];
    if (ofAccount.length > 0) {
      const withTotal = needTotal(accountBudgets);
      const key = JSON.stringify([userId, withTotal]);
      checks.push({ rules: ofAccount, cache: accounts, key, read: () => readUsed.ofAccount(userId, withTotal) });
    }
    if (budgets.length > 0) {
      const withTotal = needTotal(budgets);
      const key = JSON.stringify([userId, keyId, withTotal]);
      const read = async () => (await readUsed.ofKeys(userId, [keyId], withTotal)).get(keyId) as UsedAmounts;
      checks.push({ rules: budgetRules('This API key', budgets), cache: keys, key, read });
    }
    return enforceChecks(checks);
  }

  return (caller) => {
    const accountBudgets = caller.accountBudgets ?? readAccountBudgets?.(caller) ?? none;
    if ('then' in accountBudgets) return accountBudgets.then((budgets) => enforce(caller, budgets));
    return enforce(caller, accountBudgets);
  };
}

/** Reads the budgets of an account: at once, if they are known. */
export type ReadAccountBudgets = (userId: string) => readonly Budget[] | Promise<readonly Budget[]>;

/**
 * Reads the budgets of accounts whose callers a host authenticates, at most about a second late. A call waits for that only if
 * its account has had budgets; for any other account it is read beside the call.
 */
export function createReadAccountBudgets(
  read: (userId: string) => Promise<readonly Budget[]>,
  logger: Logger,
): ReadAccountBudgets {
  const cache = new ReadCache<readonly Budget[]>(logger);
  return (userId) => {
    const fresh = cache.fresh(userId);
    if (fresh) return fresh;
    const reading = cache.read(userId, () => read(userId)).then((budgets = []) => budgets);
    return cache.stale(userId)?.length ? reading : [];
  };
}

/** How long what was read is used. Milliseconds. */
const lifetime = 1_000;
/** How long a call waits for a read. Milliseconds. */
const longestRead = 1_000;
/** The most that is remembered. */
const capacity = 10_000;

/** Keeps what was read for a second: so what is needed all the time costs one read in a second. */
class ReadCache<T> {
  readonly #logger: Logger;
  /** `readAt` is when the read began, by `performance.now()`. */
  readonly #entries = new Map<string, { readonly value: T; readonly readAt: number }>();
  readonly #reading = new Map<string, Promise<T | undefined>>();
  #isFailing = false;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** What was read less than a second ago. */
  fresh(key: string): T | undefined {
    const entry = this.#entries.get(key);
    return entry && performance.now() - entry.readAt < lifetime ? entry.value : undefined;
  }

  /** What was read last, however old. */
  stale(key: string): T | undefined {
    return this.#entries.get(key)?.value;
  }

  /** Reads it, once for all who need it at the same time. If the database does not answer: what was read last, if anything. */
  read(key: string, read: () => Promise<T>): Promise<T | undefined> {
    const present = this.#reading.get(key) ?? this.#readNow(key, read);
    this.#reading.set(key, present);
    return present;
  }

  async #readNow(key: string, read: () => Promise<T>): Promise<T | undefined> {
    const readAt = performance.now();
    try {
      const value = await withTimeout(read(), longestRead, false);
      this.#isFailing = false;
      this.#entries.delete(key);
      this.#entries.set(key, { value, readAt });
      if (this.#entries.size > capacity) this.#entries.delete(this.#entries.keys().next().value as string);
      return value;
    } catch (error) {
      if (!this.#isFailing) this.#logger.warn('budgets could not be read', { reason: String(error) });
      this.#isFailing = true;
      return this.#entries.get(key)?.value;
    } finally {
      this.#reading.delete(key);
    }
  }
}
