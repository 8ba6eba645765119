import type { PastEvent } from '../api/types.ts';
import { useQuery } from '../data/use-query.ts';
import { DeliveryList, liveEvery } from '../deliveries/delivery-list.tsx';
import { Badge, Tag } from '../elements/badge.tsx';
import { Code } from '../elements/code.tsx';
import { Facts } from '../elements/facts.tsx';
import { Id } from '../elements/inputs/copy.tsx';
import { Loaded } from '../elements/states.tsx';
import { Time } from '../elements/time.tsx';
import { counted } from '../format/number.ts';
import { href, type Route } from '../routing/route.ts';
import { useApi } from '../session/session.ts';
import { Heading } from '../shell/heading.tsx';
import { hostsOf } from '../webhooks/hosts.ts';
import { useWebhooks } from '../webhooks/use-webhooks.ts';
import { countsOf, statusOf } from './words.ts';

const up = { name: 'Events', href: href(['events']) };

function Opened({ event, route }: { event: PastEvent; route: Route }) {
  const webhooks = useWebhooks().data?.data ?? [];
  const { shape, words } = statusOf(event);
  return (
    <>
      <Heading title={event.type} up={up}>
        {event.type} <Badge shape={shape}>{words}</Badge>
        {event.test && <Tag>test</Tag>}
      </Heading>
      {event.skipped > 0 && (
        <div class="notice">
          <p>
            {counted(event.skipped, 'webhook was', 'webhooks were')} paused when this happened and did not get it.
            Recover at the webhook sends it.
          </p>
        </div>
      )}
      <Facts
        facts={[
          ['Event', <Id id={event.id} what="event id" />],
          ['Created', <Time at={event.created} />],
          ['Deliveries', countsOf(event)],
        ]}
      />
      <Code title="Data" text={JSON.stringify(event.data)} />
      <DeliveryList route={route} filter={{ event_id: event.id }} hosts={hostsOf(webhooks)} narrowed={false} />
    </>
  );
}

/** One event, and what became of it at each webhook. */
export function EventView({ id, route }: { id: string; route: Route }) {
  const api = useApi();
  const query = useQuery((signal) => api.retrieveEvent(id, { signal }), {
    key: id,
    every: ({ state }) => (state === 'pending' ? liveEvery : null),
  });
  return (
    <>
      {!query.data && <Heading title="Event" up={up} />}
      <Loaded query={query} lines={8}>
        {(event) => <Opened event={event} route={route} />}
      </Loaded>
    </>
  );
}
