import { useMemo } from 'preact/hooks';
import { useEventTypes } from '../events/use-event-types.ts';
import { periodOf } from '../format/period.ts';
import type { Route } from '../routing/route.ts';
import { Heading } from '../shell/heading.tsx';
import { hostsOf } from '../webhooks/hosts.ts';
import { useWebhooks } from '../webhooks/use-webhooks.ts';
import { DeliveryList } from './delivery-list.tsx';
import { DeliveryFilters } from './filters.tsx';

/** Every delivery of the account. */
export function DeliveriesView({ route }: { route: Route }) {
  const { webhook, type, time, event, state, since, until } = route.query;
  const webhooks = useWebhooks().data?.data ?? [];
  const types = useEventTypes().data?.data.map(({ type }) => type) ?? [];
  // the span moves on with the clock only when it is chosen anew
  const period = useMemo(() => periodOf(route.query), [time, since, until]);
  return (
    <>
      <Heading title="Deliveries" />
      <DeliveryFilters route={route} webhooks={webhooks} types={types} />
      <DeliveryList
        route={route}
        filter={{ webhook_id: webhook, type, event_id: event, ...period }}
        hosts={hostsOf(webhooks)}
        webhooks={webhooks}
        narrowed={Boolean(webhook || type || time || event || state)}
      />
    </>
  );
}
