import type { Schemas } from '../client/api.ts';
import { type Cell, detailsOf, tableOf, type View } from '../terminal/table.ts';
import type { Paint } from '../terminal/terminal.ts';
import { figure, momentOf, relative, spanOf } from '../terminal/text.ts';
import { budgetsText } from './budgets.ts';

function webhooksCell({ webhooks: { total, failing, disabled } }: Schemas['AccountSummary']): Cell {
  const bad = [failing > 0 && `${failing} failing`, disabled > 0 && `${disabled} disabled`].filter(Boolean);
  return bad.length > 0 ? { text: `${total} (${bad.join(', ')})`, style: 'red' } : String(total);
}

export const accountsLines = tableOf<Schemas['AccountSummary']>(
  {
    account: 'user_id',
    keys: ({ api_keys: { working } }) => working,
    webhooks: webhooksCell,
    requests: ({ usage }) => usage?.requests,
    'input tokens': ({ usage }) => usage?.input_tokens,
    'output tokens': ({ usage }) => usage?.output_tokens,
    'credits left': 'credits_remaining',
  },
  'No accounts.',
);

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

export const accountLines = detailsOf<Schemas['AccountDetails']>({
  Account: ({ account }) => account.user_id,
  'API keys': ({ account, api_keys: { data, has_more: more } }) =>
    `${account.api_keys.working} working, ${data.length}${more ? ' or more' : ''} in all`,
  Webhooks: ({ webhooks }, now) => webhooks.map((webhook) => webhookText(webhook, now)).join('\n') || 'none',
  'This month': ({ account: { usage } }) =>
    usage &&
    `${figure(usage.requests)} requests, ${figure(usage.input_tokens)} input and ${figure(usage.output_tokens)} output tokens`,
  'Credits left': ({ credits }) => credits?.credits_remaining,
  Budgets: ({ budgets }) => budgets && budgetsText(budgets),
  'Limits a minute': ({ rate_limits: limits }) => limitsText(limits.per_user, limits.per_user_is_unknown),
  'of each key': ({ rate_limits: limits }) => limitsText(limits.per_key, limits.per_key_is_unknown),
  'Refused, 24 h': ({ refusals }) =>
    refusals.map(({ code, count: times }) => `${figure(times)} ${code}`).join('\n') || 'nothing',
});

type Line = Schemas['UsageLine'];
type Amount = { [Name in keyof Line]-?: Line[Name] extends number ? Name : never }[keyof Line];

const dimensions: View<Line> = {
  day: ({ day }) => day ?? '',
  model: ({ model }) => model ?? '(none)',
  key: ({ api_key_id: id }) => id ?? '(none)',
};

/** The amounts in the order of their columns, those of a group together: always, or where one of them is above 0. */
const groups: readonly { readonly names: readonly Amount[]; readonly always?: true }[] = [
  { names: ['requests', 'input_tokens', 'output_tokens'], always: true },
  { names: ['reasoning_tokens'] },
  { names: ['images'], always: true },
  { names: ['seconds', 'characters'] },
  { names: ['uploaded_bytes', 'downloaded_bytes'] },
];

/** What was used, by the dimensions that were asked for. */
export function usageLines(
  { data, from, to }: Schemas['UsageReport'],
  paint: Paint,
  now: number,
  { group_by: by = ['day'] }: Readonly<Record<string, unknown>>,
): string[] {
  const isUsed = (name: Amount) => data.some((line) => line[name] > 0);
  const shown = groups.filter(({ names, always }) => always || names.some(isUsed)).flatMap(({ names }) => names);
  const hasUnits = data.some(({ units = 0 }) => units > 0);
  const hasPrice = data.some(({ credits }) => credits !== undefined);
  const view: View<Line> = {
    ...Object.fromEntries((by as string[]).map((name) => [name, dimensions[name] ?? 'requests'])),
    ...Object.fromEntries(shown.map((name) => [name.replace('_', ' '), name])),
    ...(hasUnits && { units: ({ units = 0 }) => units }),
    ...(hasPrice && { credits: ({ credits = 0 }) => credits }),
  };
  return tableOf(view, `Nothing was used from ${from} to ${to}.`)({ data }, paint, now);
}

function spanOrNone(seconds: number | null): string {
  return seconds === null ? '-' : spanOf(seconds * 1_000);
}

/** How much of something waits, and for how long the oldest of it. */
function waiting(count: number, isMore: boolean, oldest: number | null = null): string {
  const since = count > 0 && oldest !== null ? `, the oldest for ${spanOrNone(oldest)}` : '';
  return `${figure(count)}${isMore ? ' or more' : ''}${since}`;
}

const backlogLines = detailsOf<Schemas['Backlog']>({
  'Deliveries due': (backlog) => waiting(backlog.due, backlog.due_is_more, backlog.oldest_due_seconds),
  'Due later': (backlog) => waiting(backlog.scheduled, backlog.scheduled_is_more),
  'Events to fan out': (backlog) =>
    waiting(backlog.fan_outs_pending, backlog.fan_outs_is_more, backlog.oldest_fan_out_seconds),
  'Attempts under way': 'in_progress',
});

const processLines = tableOf<Schemas['GatewayProcess']>(
  {
    process: ({ hostname, pid }) => `${hostname}, pid ${pid}`,
    role: 'role',
    version: 'version',
    started: ({ started_at: at }, now) => relative(at, now),
    seen: ({ is_live: isLive, seen_at: at }, now) =>
      isLive ? relative(at, now) : { text: relative(at, now), style: 'red' },
    late: ({ event_loop_lag_seconds: lag }) => spanOrNone(lag),
    calls: 'relayed_calls_in_progress',
    attempts: 'attempts_in_progress',
  },
  'No processes.',
);

function breakerCell({ breaker: { open, half_open: halfOpen }, processes }: Schemas['UpstreamStatus']): Cell {
  const away = open + halfOpen;
  return away > 0 ? { text: `open in ${away} of ${processes}`, style: 'red' } : 'closed';
}

function errorsCell({ errors, error_codes: codes }: Schemas['UpstreamStatus']): Cell {
  const named = Object.entries(codes).map(([code, count]) => `${figure(count)} ${code}`);
  return errors > 0 ? { text: named.join(', '), style: 'red' } : '0';
}

const upstreamLines = tableOf<Schemas['UpstreamStatus']>(
  {
    upstream: 'name',
    breaker: breakerCell,
    requests: 'requests',
    'first byte p50': ({ time_to_first_byte_seconds: { p50 } }) => spanOrNone(p50),
    p95: ({ time_to_first_byte_seconds: { p95 } }) => spanOrNone(p95),
    errors: errorsCell,
  },
  'No upstreams.',
);

interface Status {
  readonly backlog: Schemas['Backlog'];
  readonly processes: readonly Schemas['GatewayProcess'][];
  readonly upstreams: readonly Schemas['UpstreamStatus'][];
}

export function statusLines({ backlog, processes, upstreams }: Status, paint: Paint, now: number): string[] {
  return [
    ...backlogLines(backlog, paint, now),
    '',
    ...processLines({ data: processes }, paint, now),
    '',
    ...upstreamLines({ data: upstreams }, paint, now),
    '',
    'Upstreams: of the last 5 minutes, in all live processes.',
  ];
}
