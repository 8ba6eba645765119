import type { WebhookSummary } from '../api/types.ts';
import { Choice, Tabs } from '../elements/choice.tsx';
import { href, type Route } from '../routing/route.ts';

export const deliveryStates = [
  { value: 'failed', name: 'Failed' },
  { value: 'pending', name: 'Pending' },
  { value: 'delivered', name: 'Delivered' },
  { value: 'canceled', name: 'Canceled' },
] as const;

const spans = [
  { value: '1h', name: 'Last hour' },
  { value: '24h', name: 'Last 24 hours' },
  { value: '7d', name: 'Last 7 days' },
] as const;

const hours: Readonly<Record<string, number>> = { '1h': 1, '24h': 24, '7d': 168 };

/** The start of the span that is chosen, to the minute, so that asking again is the same question. */
export function sinceOf(chosen: string | undefined, now = Date.now()): string | undefined {
  const span = hours[chosen ?? ''];
  if (span === undefined) return undefined;
  return new Date(Math.floor((now - span * 3_600_000) / 60_000) * 60_000).toISOString();
}

interface Props {
  readonly route: Route;
  readonly webhooks: readonly WebhookSummary[];
  readonly types: readonly string[];
}

export function DeliveryFilters({ route, webhooks, types }: Props) {
  const { state, webhook, type, time, event } = route.query;
  const narrowed = state || webhook || type || time || event;
  return (
    <search class="filters" aria-label="Filter deliveries">
      <Tabs route={route} name="state" label="State" any="All" options={deliveryStates} />
      <Choice
        route={route}
        name="webhook"
        label="Webhook"
        any="Any webhook"
        options={webhooks.map(({ id, url }) => ({ value: id, name: url }))}
      />
      <Choice
        route={route}
        name="type"
        label="Event type"
        any="Any type"
        options={types.map((type) => ({ value: type, name: type }))}
      />
      <Choice route={route} name="time" label="Time" any="Any time" options={spans} />
      {narrowed && (
        <a class="clear" href={href(route.path)}>
          Clear filters
        </a>
      )}
    </search>
  );
}
