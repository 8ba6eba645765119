import type { Schemas } from '../../client/api.ts';
import { momentOf, relative } from '../../terminal/moments.ts';
import type { Paint } from '../../terminal/paint.ts';
import { type Cell, fieldLines } from '../../terminal/table.ts';

/** A webhook as the API shows it, in full or in part, with the secret if the gateway made one. */
export type WebhookView = Schemas['Webhook'] & Partial<Schemas['WebhookDetails']> & { readonly secret?: string };

/** Shows whether a webhook is active, and otherwise who paused or disabled it. */
export function stateCell({ active, disabled }: { active: boolean; disabled?: WebhookView['disabled'] }): Cell {
  if (active) return { text: 'active', style: 'green' };
  if (!disabled) return { text: 'paused', style: 'yellow' };
  const why = disabled.reason === 'gone' ? 'it answered 410 Gone' : 'it failed everything for too long';
  return { text: `disabled by the gateway: ${why}`, style: 'red' };
}

/** A failed attempt in two lines: when and what, then what to do about it. */
export function failureText(
  { at, code, delivery_id: delivery, explanation }: Schemas['WebhookFailure'],
  now: number,
): string {
  return `${momentOf(at, now)} ${code} ${delivery}\n${explanation}`;
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

/** A webhook as a person reads it. */
export function webhookLines(webhook: WebhookView, paint: Paint, now: number): string[] {
  const { id, url, events, created_at: created, health } = webhook;
  const success = health?.last_success_at;
  return fieldLines(
    [
      ['Webhook', id],
      ['URL', url],
      ['State', stateCell(webhook)],
      ['Description', webhook.description],
      ['Events', events.join('\n')],
      ['Filters', listed(webhook.filters)],
      ['Rate limit', webhook.rate_limit ? `${webhook.rate_limit} requests a second` : undefined],
      ['Headers', webhook.header_names?.join(', ')],
      ['Metadata', listed(webhook.metadata)],
      ['Created', momentOf(created, now)],
      ['Secret', webhook.secret],
      ['Secrets', rotation(webhook, now)],
      ['Health', healthCell(webhook, now)],
      ['Last success', success ? relative(success, now) : undefined],
      ['Last failure', health?.last_failure ? failureText(health.last_failure, now) : undefined],
    ],
    paint,
  );
}
