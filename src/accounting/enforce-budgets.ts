import { GatewayError } from '../errors.ts';
import type { Principal } from '../http/principal.ts';
import { withTimeout } from '../mongo/periodic.ts';
import { type Budget, type BudgetPeriod, type BudgetUnit, budgetUnits } from '../options/budgets.ts';
import type { Logger, Quota } from '../options/options.ts';
import { needTotal, type ReadUsed, resetOf, type UsedAmounts, usedUnits } from './budgets.ts';
import type { QuotaOf } from './thresholds.ts';

/** Resolves, or returns at once, where a caller may make a call. @throws GatewayError `insufficient_quota` */
export type EnforceBudgets = (caller: Principal) => Promise<undefined> | undefined;

export interface EnforceBudgetsDeps {
  readonly readUsed: ReadUsed;
  /** Quotas that are enforced. */
  readonly quotaOf: QuotaOf;
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

function exceeded({ owner, kind, budget: { period, ...maxima } }: Rule, unit: BudgetUnit, used: UsedAmounts) {
  const amount = usedUnits(used[period])[unit];
  const reset = resetOf(period, used.at);
  const ending = reset ? `it resets at ${reset.toISOString()}` : 'it does not reset';
  const name = `${adjectives[period]} ${kind} of ${maxima[unit]} ${unit}`;
  return new GatewayError('insufficient_quota', `${owner} has used up its ${name} (${amount} used); ${ending}`, {
    headers: { 'x-should-retry': 'false' },
  });
}

/** @throws GatewayError `insufficient_quota` if one of the budgets is used up */
function enforceRules(rules: readonly Rule[], used: UsedAmounts | undefined): void {
  if (!used) return;
  for (const rule of rules) {
    const { budget } = rule;
    const amounts = usedUnits(used[budget.period]);
    const unit = budgetUnits.find((name) => amounts[name] >= (budget[name] ?? Number.POSITIVE_INFINITY));
    if (unit) throw exceeded(rule, unit, used);
  }
}

/** A quota of the option `quotas`, as the rules that it comes to. */
function quotaRules(quota: Quota | undefined): Rule[] {
  if (!quota) return [];
  const { unit, daily, monthly } = quota;
  const rule = (period: BudgetPeriod, maximum: number): Rule => ({
    owner: 'This account',
    kind: 'quota',
    budget: { period, [unit]: maximum },
  });
  return [
    ...(daily === undefined ? [] : [rule('day', daily)]),
    ...(monthly === undefined ? [] : [rule('month', monthly)]),
  ];
}

function budgetRule(owner: Rule['owner'], budget: Budget): Rule {
  return { owner, kind: 'budget', budget };
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
  const accounts = createReadCache<UsedAmounts>(logger);
  const keys = createReadCache<UsedAmounts>(logger);

  function checkOfAccount(userId: string, rules: readonly Rule[], withTotal: boolean): Check {
    const key = JSON.stringify([userId, withTotal]);
    return { rules, cache: accounts, key, read: () => readUsed.ofAccount(userId, withTotal) };
  }

  function checkOfKey(userId: string, keyId: string, rules: readonly Rule[], withTotal: boolean): Check {
    const key = JSON.stringify([userId, keyId, withTotal]);
    async function read() {
      return (await readUsed.ofKeys(userId, [keyId], withTotal)).get(keyId) as UsedAmounts;
    }
    return { rules, cache: keys, key, read };
  }

  function enforce({ userId, keyId, budgets = none }: Principal, accountBudgets: readonly Budget[]) {
    const quota = quotaOf(userId);
    if (!quota && budgets.length === 0 && accountBudgets.length === 0) return undefined;
    const checks: Check[] = [];
    const ofAccount = [...quotaRules(quota), ...accountBudgets.map((budget) => budgetRule('This account', budget))];
    if (ofAccount.length > 0) checks.push(checkOfAccount(userId, ofAccount, needTotal(accountBudgets)));
    if (budgets.length > 0) {
      const ofKey = budgets.map((budget) => budgetRule('This API key', budget));
      checks.push(checkOfKey(userId, keyId as string, ofKey, needTotal(budgets)));
    }
    return enforceChecks(checks);
  }

  return (caller) => {
    const accountBudgets = caller.accountBudgets ?? readAccountBudgets?.(caller) ?? none;
    if (accountBudgets instanceof Promise) return accountBudgets.then((budgets) => enforce(caller, budgets));
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
  const cache = createReadCache<readonly Budget[]>(logger);
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

interface Entry<T> {
  readonly value: T;
  /** When the read of it began, by `performance.now()`. */
  readonly readAt: number;
}

/** Keeps what was read for a second: so what is needed all the time costs one read in a second. */
interface ReadCache<T> {
  /** What was read less than a second ago. */
  fresh(key: string): T | undefined;
  /** What was read last, however old. */
  stale(key: string): T | undefined;
  /** Reads it, once for all who need it at the same time. If the database does not answer: what was read last, if anything. */
  read(key: string, read: () => Promise<T>): Promise<T | undefined>;
}

function createReadCache<T>(logger: Logger): ReadCache<T> {
  const entries = new Map<string, Entry<T>>();
  const reading = new Map<string, Promise<T | undefined>>();
  let failing = false;

  async function readNow(key: string, read: () => Promise<T>): Promise<T | undefined> {
    const readAt = performance.now();
    try {
      const value = await withTimeout(read(), longestRead, false);
      failing = false;
      entries.delete(key);
      entries.set(key, { value, readAt });
      for (const oldest of entries.keys()) {
        if (entries.size <= capacity) break;
        entries.delete(oldest);
      }
      return value;
    } catch (error) {
      if (!failing) logger.warn('budgets could not be read', { reason: String(error) });
      failing = true;
      return entries.get(key)?.value;
    } finally {
      reading.delete(key);
    }
  }

  return {
    fresh(key) {
      const entry = entries.get(key);
      return entry && performance.now() - entry.readAt < lifetime ? entry.value : undefined;
    },
    stale: (key) => entries.get(key)?.value,
    read(key, read) {
      const present = reading.get(key) ?? readNow(key, read);
      reading.set(key, present);
      return present;
    },
  };
}
