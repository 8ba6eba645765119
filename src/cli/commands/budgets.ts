import { type Command, InvalidArgumentError } from 'commander';
import { budgetUnits } from '../../options/budgets.ts';
import { dataFrom, type Schemas } from '../client/api.ts';
import { ApiCommand, type CommandContext, subject } from '../client/api-command.ts';
import { decimal } from '../client/flags.ts';
import { type Column, listLines } from '../terminal/table.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { figure, printable, relative } from '../terminal/text.ts';

type Budget = Schemas['Budget'];

const columns: readonly Column<Maximum>[] = [
  { header: 'PERIOD', cell: ({ budget }) => budget.period },
  { header: 'UNIT', cell: ({ unit }) => unit },
  {
    header: 'USED',
    cell: ({ budget, unit, maximum }) => {
      const used = budget.used[unit];
      return used < maximum ? figure(used) : { text: figure(used), style: 'red' };
    },
    align: 'right',
  },
  { header: 'MAXIMUM', cell: ({ maximum }) => figure(maximum), align: 'right' },
  { header: 'RESETS', cell: ({ budget: { resets_at: at } }, now) => (at ? relative(at, now) : 'never') },
];

export function budgetsCommand(terminal: Terminal): Command {
  return subject('budgets', 'show, set and remove the budgets of accounts', [
    new ApiCommand(terminal, 'show', 'the budgets of an account, and what it has used of them')
      .option(
        '--user <account>',
        'of this account, with a key that has the scope admin; of your own when it is left out',
      )
      .examples('budgets show', 'budgets show --user usr_2', 'budgets show --json | jq .data')
      .shows<[{ user?: string }], Schemas['BudgetList']>(
        ({ api }, { user }) =>
          user === undefined
            ? api.GET('/v1/budgets')
            : api.GET('/v1/users/{user_id}/budgets', { params: { path: { user_id: user } } }),
        ({ data }, paint, now) => listLines(columns, 'No budgets.')({ data: maximaOf(data) }, paint, now),
      ),
    new ApiCommand(
      terminal,
      'set',
      'replace the budgets of an account, everywhere within a second; needs a key with the scope admin',
    )
      .requiredOption('--user <account>', 'which account, such as usr_1')
      .requiredOption('--budget <budget>', budgetMeaning, readBudgets)
      .examples(
        'budgets set --user usr_1 --budget month:tokens=1000000',
        'budgets set --user usr_1 --budget day:requests=1000 --budget month:tokens=1000000,credits=50',
      )
      .runs(replace),
    new ApiCommand(terminal, 'remove', 'remove all budgets of an account; needs a key with the scope admin')
      .requiredOption('--user <account>', 'which account, such as usr_1')
      .examples('budgets remove --user usr_1')
      .runs(replace),
  ]);
}

async function replace({ api, show }: CommandContext, { user, budget = [] }: { user: string; budget?: Budget[] }) {
  const params = { path: { user_id: user } };
  const replaced = await dataFrom(api.PUT('/v1/users/{user_id}/budgets', { params, body: { budgets: [...budget] } }));
  show(replaced, ({ data }) => [`Budgets of ${printable(user)}: ${budgetsText(data)}`]);
}

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
