import { useMemo } from 'preact/hooks';
import { useEventTypes } from '../events/use-event-types.ts';
import type { Route } from '../routing/route.ts';
import { Heading } from '../shell/heading.tsx';
import { hostsOf } from '../webhooks/hosts.ts';
import { useWebhooks } from '../webhooks/use-webhooks.ts';
import { DeliveryList } from './delivery-list.tsx';
import { DeliveryFilters, sinceOf } from './filters.tsx';

/** Every delivery of the account. */
export function DeliveriesView({ route }: { route: Route }) {
  const { webhook, type, time, event, state } = route.query;
  const webhooks = useWebhooks().data?.data ?? [];
  const types = useEventTypes().data?.data.map(({ type }) => type) ?? [];
  // the span moves on with the clock only when it is chosen anew
  const since = useMemo(() => sinceOf(time), [time]);
  return (
    <>
      <Heading title="Deliveries" />
      <DeliveryFilters route={route} webhooks={webhooks} types={types} />
      <DeliveryList
        route={route}
        filter={{ webhook_id: webhook, type, event_id: event, since }}
        hosts={hostsOf(webhooks)}
        narrowed={Boolean(webhook || type || time || event || state)}
      />
    </>
  );
}
