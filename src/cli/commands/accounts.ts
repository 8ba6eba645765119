import type { Command } from 'commander';
import { dataFrom, type Schemas } from '../client/api.ts';
import { ApiCommand, subject } from '../client/api-command.ts';
import { count } from '../client/flags.ts';
import { type Cell, type Column, detailLines, listLines } from '../terminal/table.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { figure, momentOf } from '../terminal/text.ts';
import { budgetsText } from './budgets.ts';

type Summary = Schemas['AccountSummary'];

function webhooksCell({ webhooks: { total, failing, disabled } }: Summary): Cell {
  const bad = [failing > 0 && `${failing} failing`, disabled > 0 && `${disabled} disabled`].filter(Boolean);
  return bad.length > 0 ? { text: `${total} (${bad.join(', ')})`, style: 'red' } : String(total);
}

const figureOrNone = (amount: number | null | undefined): string => (amount == null ? '-' : figure(amount));

const columns: readonly Column<Summary>[] = [
  { header: 'ACCOUNT', cell: ({ user_id: id }) => id },
  { header: 'KEYS', cell: ({ api_keys: { working } }) => String(working), align: 'right' },
  { header: 'WEBHOOKS', cell: webhooksCell },
  { header: 'REQUESTS', cell: ({ usage }) => figureOrNone(usage?.requests), align: 'right' },
  { header: 'INPUT TOKENS', cell: ({ usage }) => figureOrNone(usage?.input_tokens), align: 'right' },
  { header: 'OUTPUT TOKENS', cell: ({ usage }) => figureOrNone(usage?.output_tokens), align: 'right' },
  { header: 'CREDITS LEFT', cell: ({ credits_remaining: left }) => figureOrNone(left), align: 'right' },
];

function limitsText(limits: Schemas['RateLimits'] | null, isUnknown: boolean): string {
  if (isUnknown) return 'a function of the host decides';
  const { requests_per_minute: requests = null, tokens_per_minute: tokens = null } = limits ?? {};
  const parts = [requests !== null && `${figure(requests)} requests`, tokens !== null && `${figure(tokens)} tokens`];
  return parts.filter(Boolean).join(', ') || 'none';
}

function webhookText({ id, url, active, disabled, health }: Schemas['AccountWebhook'], now: number): string {
  const { state, failing_since: since, last_failure: failure } = health;
  if (disabled) return `${id} disabled by the gateway ${momentOf(disabled.at, now)} ${url}`;
  if (!active) return `${id} paused ${url}`;
  const why = state === 'failing' && since && failure ? ` since ${momentOf(since, now)}: ${failure.code}` : '';
  return `${id} ${state}${why} ${url}`;
}

const accountLines = detailLines((details: Schemas['AccountDetails'], now) => {
  const { account, api_keys: keys, webhooks, budgets, credits, rate_limits: limits, refusals } = details;
  const { usage } = account;
  return [
    ['Account', account.user_id],
    ['API keys', `${account.api_keys.working} working, ${keys.data.length}${keys.has_more ? ' or more' : ''} in all`],
    ['Webhooks', webhooks.map((webhook) => webhookText(webhook, now)).join('\n') || 'none'],
    [
      'This month',
      usage
        ? `${figure(usage.requests)} requests, ${figure(usage.input_tokens)} input and ${figure(usage.output_tokens)} output tokens`
        : undefined,
    ],
    ['Credits left', credits ? figure(credits.credits_remaining) : undefined],
    ['Budgets', budgets ? budgetsText(budgets) : undefined],
    ['Limits a minute', limitsText(limits.per_user, limits.per_user_is_unknown)],
    ['of each key', limitsText(limits.per_key, limits.per_key_is_unknown)],
    ['Refused, 24 h', refusals.map(({ code, count: times }) => `${figure(times)} ${code}`).join('\n') || 'nothing'],
  ];
});

export function accountsCommand(terminal: Terminal): Command {
  return subject('accounts', 'list and show all accounts; needs a key with the scope admin', [
    new ApiCommand(terminal, 'list', 'accounts with a key, a webhook or usage this month, by user id')
      .option('--prefix <text>', 'only those whose user ids begin with it')
      .option('--after <account>', 'those that follow this user id')
      .option('--limit <n>', 'how many, 100 at most', count, 100)
      .examples('accounts list', 'accounts list --prefix usr_ --limit 20')
      .runs(async ({ api, show }, options: { prefix?: string; after?: string; limit: number }) => {
        const { prefix, after, limit } = options;
        const query = { limit, ...(prefix !== undefined && { prefix }), ...(after !== undefined && { after }) };
        const page = await dataFrom(api.GET('/v1/admin/accounts', { params: { query } }));
        show(page, listLines(columns, 'No accounts.'));
        const last = page.data.at(-1);
        if (page.has_more && last) terminal.printNote(`There are more: use --after ${last.user_id}`);
      }),
    new ApiCommand(
      terminal,
      'show',
      'one account: its keys, webhooks, usage, budgets, credits and limits, and what it was refused',
    )
      .argument('<account>', 'the user id, such as usr_1')
      .examples('accounts show usr_1', 'accounts show usr_1 --json | jq .webhooks')
      .shows(
        ({ api }, user_id: string) => api.GET('/v1/admin/accounts/{user_id}', { params: { path: { user_id } } }),
        accountLines,
      ),
  ]);
}
