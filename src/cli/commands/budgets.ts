import { InvalidArgumentError } from 'commander';
import { budgetUnits } from '../../options/budgets.ts';
import type { Schemas } from '../client/api.ts';
import { decimal } from '../client/flags.ts';
import { tableOf } from '../terminal/table.ts';
import type { Paint } from '../terminal/terminal.ts';
import { figure, relative } from '../terminal/text.ts';

type Budget = Schemas['Budget'];

export const budgetMeaning =
  'the most it may use a day, a month or in total, such as month:tokens=1000000; may be repeated';

const form = /^(day|month|total):(.+)$/;

/** Reads a budget such as `month:tokens=1000000,credits=50`; the option may be repeated. */
export function readBudgets(text: string, before: readonly Budget[] | false = []): readonly Budget[] {
  const wrong = () =>
    new InvalidArgumentError('It must be such as day:requests=1000 or month:tokens=1000000,credits=50.');
  const [, period, maxima] = form.exec(text) ?? [];
  if (!period || !maxima) throw wrong();
  const budget: Budget = { period: period as Budget['period'] };
  for (const maximum of maxima.split(',')) {
    const [name, text = ''] = maximum.split('=');
    const unit = budgetUnits.find((known) => known === name);
    const amount = decimal(text);
    if (!unit || amount === undefined) throw wrong();
    budget[unit] = amount;
  }
  return [...(before || []), budget];
}

/** Budgets as a person reads them: `month 12.5/50 credits`. */
export function budgetsText(budgets: readonly Schemas['BudgetUsage'][]): string {
  const texts = maximaOf(budgets).map(
    ({ budget, unit, maximum }) => `${budget.period} ${figure(budget.used[unit])}/${figure(maximum)} ${unit}`,
  );
  return texts.length > 0 ? texts.join('; ') : 'none';
}

type Maximum = ReturnType<typeof maximaOf>[number];

function maximaOf(budgets: readonly Schemas['BudgetUsage'][]) {
  return budgets.flatMap((budget) =>
    budgetUnits.flatMap((unit) => {
      const maximum = budget[unit];
      return maximum === undefined ? [] : [{ budget, unit, maximum }];
    }),
  );
}

const maximaLines = tableOf<Maximum>(
  {
    period: ({ budget }) => budget.period,
    unit: 'unit',
    used: ({ budget, unit, maximum }) => {
      const used = budget.used[unit];
      return used < maximum ? used : { text: used, style: 'red' };
    },
    maximum: 'maximum',
    resets: ({ budget: { resets_at: at } }, now) => (at ? relative(at, now) : 'never'),
  },
  'No budgets.',
);

/** Each maximum of the budgets in a line, with what is used of it. */
export function budgetLines({ data }: Schemas['BudgetList'], paint: Paint, now: number): string[] {
  return maximaLines({ data: maximaOf(data) }, paint, now);
}
