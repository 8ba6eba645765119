import { Command } from 'commander';
import { dataOf, type Schemas } from '../../client/api.ts';
import { apiAction, apiCommands, examples } from '../../client/api-command.ts';
import type { CommandContext } from '../../client/context.ts';
import { relative } from '../../terminal/moments.ts';
import type { Paint } from '../../terminal/paint.ts';
import { printable } from '../../terminal/printable.ts';
import { type Column, tableLines } from '../../terminal/table.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { budgetMeaning, budgetsText, figure, type Maximum, maximaOf, readBudgets } from './budget-option.ts';

type Budgets = Schemas['BudgetList'];

function columns(now: number): readonly Column<Maximum>[] {
  return [
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
    { header: 'RESETS', cell: ({ budget: { resets_at: at } }) => (at ? relative(at, now) : 'never') },
  ];
}

function budgetLines({ data }: Budgets, paint: Paint, now: number): string[] {
  const maxima = maximaOf(data);
  return maxima.length > 0 ? tableLines(columns(now), maxima, paint) : ['No budgets.'];
}

function showCommand(terminal: Terminal): Command {
  return new Command('show')
    .description('the budgets of an account, and what it has used of them')
    .option('--user <account>', 'of this account, with a key that has the scope admin; of your own when it is left out')
    .addHelpText('after', examples('budgets show', 'budgets show --user usr_2', 'budgets show --json | jq .data'))
    .action(
      apiAction(terminal, async ({ api, show }, { user }: { user?: string }) => {
        const budgets =
          user === undefined
            ? api.GET('/v1/budgets')
            : api.GET('/v1/users/{user_id}/budgets', { params: { path: { user_id: user } } });
        show(await dataOf<Budgets>(budgets), budgetLines);
      }),
    );
}

/** Replaces the budgets of an account. */
async function replace({ api, show }: CommandContext, user: string, budgets: readonly Schemas['Budget'][]) {
  const replaced = api.PUT('/v1/users/{user_id}/budgets', {
    params: { path: { user_id: user } },
    body: { budgets: [...budgets] },
  });
  show(await dataOf<Budgets>(replaced), ({ data }) => [`Budgets of ${printable(user)}: ${budgetsText(data)}`]);
}

interface SetOptions {
  readonly user: string;
  readonly budget: readonly Schemas['Budget'][];
}

function setCommand(terminal: Terminal): Command {
  return new Command('set')
    .description('replace the budgets of an account, everywhere within a second; needs a key with the scope admin')
    .requiredOption('--user <account>', 'which account, such as usr_1')
    .requiredOption('--budget <budget>', budgetMeaning, readBudgets)
    .addHelpText(
      'after',
      examples(
        'budgets set --user usr_1 --budget month:tokens=1000000',
        'budgets set --user usr_1 --budget day:requests=1000 --budget month:tokens=1000000,credits=50',
      ),
    )
    .action(apiAction(terminal, (context, { user, budget }: SetOptions) => replace(context, user, budget)));
}

function removeCommand(terminal: Terminal): Command {
  return new Command('remove')
    .description('remove all budgets of an account; needs a key with the scope admin')
    .requiredOption('--user <account>', 'which account, such as usr_1')
    .addHelpText('after', examples('budgets remove --user usr_1'))
    .action(apiAction(terminal, (context, { user }: { user: string }) => replace(context, user, [])));
}

/** `budgets`: the most that an account may use, all its keys together. */
export function budgetsCommand(terminal: Terminal): Command {
  return apiCommands('budgets', 'show, set and remove the budgets of accounts', [
    showCommand(terminal),
    setCommand(terminal),
    removeCommand(terminal),
  ]);
}
