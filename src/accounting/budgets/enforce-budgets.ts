import { type Budget, type BudgetPeriod, type BudgetUnit, budgetUnits } from '../../budgets.ts';
import { GatewayError } from '../../errors.ts';
import type { Principal } from '../../http/principal.ts';
import type { Logger, Quota } from '../../options/options.ts';
import type { QuotaOf } from '../usage/quotas.ts';
import { needTotal, resetOf, usedUnits } from './budget-usage.ts';
import { createRecentUsed } from './recent-used.ts';
import type { ReadUsed, UsedAmounts } from './used-amounts.ts';

/** Resolves, or returns at once, where a caller may make a call. @throws GatewayError `insufficient_quota` */
export type EnforceBudgets = (caller: Principal) => Promise<undefined> | undefined;

export interface EnforceBudgetsDeps {
  readonly readUsed: ReadUsed;
  /** Quotas that are enforced. */
  readonly quotaOf: QuotaOf;
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
function judge(rules: readonly Rule[], used: UsedAmounts | undefined): void {
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

const isTotal = (rules: readonly Rule[]) => needTotal(rules.map(({ budget }) => budget));

/**
 * Refuses calls when a quota of the account or a budget of the key is used up, by what has been counted: about a second after a
 * call has ended. So a caller may exceed a budget by what it uses in that second, and by its calls under way. A caller that has
 * none of these costs nothing.
 */
export function createEnforceBudgets({ readUsed, quotaOf, logger }: EnforceBudgetsDeps): EnforceBudgets {
  const accounts = createRecentUsed((id) => {
    const [userId, withTotal] = JSON.parse(id) as [string, boolean];
    return readUsed.ofAccount(userId, withTotal);
  }, logger);
  const keys = createRecentUsed(async (id) => {
    const [userId, withTotal, keyId] = JSON.parse(id) as [string, boolean, string];
    return (await readUsed.ofKeys(userId, [keyId], withTotal)).get(keyId) as UsedAmounts;
  }, logger);

  return (caller) => {
    const { userId, keyId, budgets = [] } = caller;
    const quota = quotaOf(userId);
    if (!quota && budgets.length === 0) return undefined;
    const ofAccount = quotaRules(quota);
    const ofKey = budgets.map((budget): Rule => ({ owner: 'This API key', kind: 'budget', budget }));
    const checks = [
      ...(ofAccount.length > 0
        ? [{ rules: ofAccount, recent: accounts, id: JSON.stringify([userId, isTotal(ofAccount)]) }]
        : []),
      ...(ofKey.length > 0
        ? [{ rules: ofKey, recent: keys, id: JSON.stringify([userId, isTotal(ofKey), keyId]) }]
        : []),
    ];
    const unknown = checks.filter(({ rules, recent, id }) => {
      const used = recent.peek(id);
      judge(rules, used);
      return !used;
    });
    if (unknown.length === 0) return undefined;
    return Promise.all(unknown.map(async ({ rules, recent, id }) => judge(rules, await recent.read(id)))).then(
      () => undefined,
    );
  };
}
