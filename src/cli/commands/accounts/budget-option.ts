import { InvalidArgumentError } from 'commander';
import { type BudgetUnit, budgetUnits } from '../../../options/accounts/budgets.ts';
import type { Schemas } from '../../client/api.ts';
import { decimal } from '../../client/flags.ts';

type Budget = Schemas['Budget'];

export const budgetMeaning =
  'the most it may use a day, a month or in total, such as month:tokens=1000000; may be repeated';

const form = /^(day|month|total):(.+)$/;

function isUnit(text: string | undefined): text is BudgetUnit {
  return budgetUnits.some((unit) => unit === text);
}

/** Reads a budget such as `month:tokens=1000000,credits=50`; the option may be repeated. */
export function readBudgets(text: string, before: readonly Budget[] | false = []): readonly Budget[] {
  const wrong = () =>
    new InvalidArgumentError('It must be such as day:requests=1000 or month:tokens=1000000,credits=50.');
  const [, period, maxima] = form.exec(text) ?? [];
  if (!period || !maxima) throw wrong();
  const budget: Budget = { period: period as Budget['period'] };
  for (const maximum of maxima.split(',')) {
    const [unit, text = ''] = maximum.split('=');
    const amount = decimal(text);
    if (!isUnit(unit) || amount === undefined) throw wrong();
    budget[unit] = amount;
  }
  return [...(before || []), budget];
}

/** An amount of tokens, requests or credits. */
export function figure(amount: number): string {
  return amount.toLocaleString('en-US', { maximumFractionDigits: 6 });
}

/** One maximum of a budget. */
export interface Maximum {
  readonly budget: Schemas['BudgetUsage'];
  readonly unit: BudgetUnit;
  readonly maximum: number;
}

/** Each maximum of each budget. */
export function maximaOf(budgets: readonly Schemas['BudgetUsage'][]): Maximum[] {
  return budgets.flatMap((budget) =>
    budgetUnits.flatMap((unit) => {
      const maximum = budget[unit];
      return maximum === undefined ? [] : [{ budget, unit, maximum }];
    }),
  );
}

/** Budgets as a person reads them: `month 12.5/50 credits`. */
export function budgetsText(budgets: readonly Schemas['BudgetUsage'][]): string {
  const texts = maximaOf(budgets).map(
    ({ budget, unit, maximum }) => `${budget.period} ${figure(budget.used[unit])}/${figure(maximum)} ${unit}`,
  );
  return texts.length > 0 ? texts.join('; ') : 'none';
}
