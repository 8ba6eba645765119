import type { WebhookSummary } from '../api/types.ts';
import { Choice, Tabs } from '../elements/inputs/choice.tsx';
import { TimeRange } from '../elements/inputs/time-range.tsx';
import { href, type Route } from '../routing/route.ts';

export const deliveryStates = [
  { value: 'failed', name: 'Failed' },
  { value: 'pending', name: 'Pending' },
  { value: 'delivered', name: 'Delivered' },
  { value: 'canceled', name: 'Canceled' },
] as const;

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
      <TimeRange route={route} />
      {narrowed && (
        <a class="clear" href={href(route.path)}>
          Clear filters
        </a>
      )}
    </search>
  );
}
