import type { Schemas } from '../client/api.ts';
import { type Cell, type Column, detailLines, tableLines } from '../terminal/table.ts';
import type { Paint } from '../terminal/terminal.ts';
import { localTime, momentOf, relative, spanOf } from '../terminal/text.ts';

/** A webhook as the API shows it, in full or in part, with the secret if the gateway made one. */
export type WebhookView = Schemas['Webhook'] & Partial<Schemas['WebhookDetails']> & { readonly secret?: string };

export const webhookLines = detailLines((webhook: WebhookView, now) => [
  ['Webhook', webhook.id],
  ['URL', webhook.url],
  ['State', webhookStateCell(webhook)],
  ['Description', webhook.description],
  ['Events', webhook.events.join('\n')],
  ['Filters', listed(webhook.filters)],
  ['Rate limit', webhook.rate_limit ? `${webhook.rate_limit} requests a second` : undefined],
  ['Headers', webhook.header_names?.join(', ')],
  ['Metadata', listed(webhook.metadata)],
  ['Created', momentOf(webhook.created_at, now)],
  ['Secret', webhook.secret],
  ['Secrets', rotation(webhook, now)],
  ['Health', healthCell(webhook, now)],
  ['Last success', webhook.health?.last_success_at ? relative(webhook.health.last_success_at, now) : undefined],
  ['Last failure', failureText(webhook.health?.last_failure, now)],
]);

/** Shows whether a webhook is active, and otherwise who paused or disabled it. */
export function webhookStateCell({ active, disabled }: { active: boolean; disabled?: WebhookView['disabled'] }): Cell {
  if (active) return { text: 'active', style: 'green' };
  if (!disabled) return { text: 'paused', style: 'yellow' };
  const why = disabled.reason === 'gone' ? 'it answered 410 Gone' : 'it failed everything for too long';
  return { text: `disabled by the gateway: ${why}`, style: 'red' };
}

function healthCell({ health }: WebhookView, now: number): Cell | undefined {
  if (!health) return undefined;
  const { state, failing_since: since } = health;
  if (state === 'healthy') return { text: state, style: 'green' };
  if (state === 'idle') return 'idle: nothing was sent in the last week';
  return { text: since ? `failing, since ${momentOf(since, now)}` : 'failing', style: 'red' };
}

function rotation({ secret_rotation: underWay }: WebhookView, now: number): Cell | undefined {
  if (!underWay) return undefined;
  const { ends_at, service_signature } = underWay;
  return `both are good until ${momentOf(ends_at, now)}; x-service-signature is made with the ${service_signature} one`;
}

/** A failed attempt in two lines: when and what, then what to do about it. */
function failureText(failure: Schemas['WebhookFailure'] | null | undefined, now: number): string | undefined {
  if (!failure) return undefined;
  return `${momentOf(failure.at, now)} ${failure.code} ${failure.delivery_id}\n${failure.explanation}`;
}

/** `name: value` by line. */
function listed(values: Readonly<Record<string, unknown>> | undefined): string | undefined {
  if (!values) return undefined;
  return Object.entries(values)
    .map(([name, value]) => `${name}: ${Array.isArray(value) ? value.map(toJson).join(', ') : value}`)
    .join('\n');
}

/** A text as it is, unless it could be taken for a number or a boolean. */
function toJson(value: unknown): string {
  const isPlain = typeof value === 'string' && !/^(true|false|[-\d].*|.*[",].*|)$/.test(value);
  return isPlain ? value : JSON.stringify(value);
}

type Stats = Schemas['WebhookStats'];

type Day = Pick<Stats['hours'][number], 'succeeded' | 'failed'> & { day: string };

const totalLines = detailLines((stats: Stats, now) => {
  const { success_rate: rate, succeeded, p50_ms: p50, p95_ms: p95 } = stats;
  const hasTimes = p50 !== null && p95 !== null;
  return [
    ['Webhook', stats.webhook_id],
    ['Since', momentOf(stats.since, now)],
    ['Attempts', String(stats.attempts)],
    ['Succeeded', rate === null ? undefined : `${succeeded} (${(rate * 100).toFixed(1)} %)`],
    ['Took', hasTimes ? `${spanOf(p50)} for half of them, ${spanOf(p95)} for 95 %` : undefined],
    ['Last failure', failureText(stats.last_failure, now)],
  ];
});

/** How deliveries to a webhook went lately. */
export function statsLines(stats: Stats, paint: Paint, now: number): string[] {
  const days = daysOf(stats);
  const dayLines = days.length > 0 ? ['', ...tableLines(dayColumns, days, paint, now)] : [];
  return [...totalLines(stats, paint, now), ...dayLines];
}

const dayColumns: readonly Column<Day>[] = [
  { header: 'DAY', cell: ({ day }) => day },
  { header: 'SUCCEEDED', cell: ({ succeeded }) => String(succeeded), align: 'right' },
  {
    header: 'FAILED',
    cell: ({ failed }) => (failed > 0 ? { text: String(failed), style: 'red' } : '0'),
    align: 'right',
  },
];

/** The hours summed up by the reader's own days. */
function daysOf({ hours }: Stats): Day[] {
  const days = new Map<string, Day>();
  for (const { start, succeeded, failed } of hours) {
    const day = localTime(start).slice(0, 10);
    const { succeeded: good = 0, failed: bad = 0 } = days.get(day) ?? {};
    days.set(day, { day, succeeded: good + succeeded, failed: bad + failed });
  }
  return [...days.values()].filter(({ succeeded, failed }) => succeeded + failed > 0);
}
