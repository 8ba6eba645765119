import { useRead } from '../data/query.ts';
import type { Route } from '../data/route.ts';
import type { EventState, PastEvent } from '../data/types.ts';
import { DeliveryList, deliveryStates } from '../deliveries/deliveries-view.tsx';
import { type Status, StatusBadge, Tag } from '../elements/badge.tsx';
import { Id } from '../elements/button.tsx';
import { ClearFilters, Filters, isNarrowed, Tabs, TimeRange, usePeriod } from '../elements/filters.tsx';
import { counted } from '../elements/format.ts';
import { HistoryList, liveEvery } from '../elements/history.tsx';
import { Loaded } from '../elements/states.tsx';
import { type Column, endNumbers, RowName, Table } from '../elements/table.tsx';
import { Ago, Time } from '../elements/time.tsx';
import { Code, Facts, Heading, Notice } from '../elements/view.tsx';
import { useWebhooks } from '../webhooks/webhook.tsx';
import { EventTypeChoice } from './event-types.tsx';

const states = deliveryStates.filter(({ value }) => value !== 'canceled');
const narrowing = ['type', 'state', 'time'];

/** What happened in the account, and who was told. */
export function EventsView({ route }: { route: Route }) {
  const period = usePeriod(route);
  return (
    <>
      <Heading title="Events" />
      <Filters label="Filter events">
        <Tabs route={route} name="state" label="State" any="All" options={states} />
        <EventTypeChoice route={route} />
        <TimeRange route={route} />
        <ClearFilters route={route} names={narrowing} />
      </Filters>
      <HistoryList
        route={route}
        what="events"
        filter={{ ...period, type: route.query.type }}
        failedAsked={25}
        narrowed={isNarrowed(route, narrowing)}
        none="Payments, credits, keys and limits of this account appear here as they happen."
        table={(events, caption) => (
          <Table kind="events" caption={caption} columns={columns} rows={events} keyOf={({ id }) => id} />
        )}
      />
    </>
  );
}

const columns: readonly Column<PastEvent>[] = [
  { head: 'State', width: '126px', cell: ({ state }) => <StatusBadge status={statuses[state]} /> },
  {
    head: 'Event',
    class: 'cell-main',
    cell: ({ id, type, test }) => <RowName to={['events', id]} name={type} test={test} id={id} />,
  },
  { head: 'Deliveries', name: true, class: 'cell-wide', cell: countsOf },
  { width: '104px', ...endNumbers('Created', ({ created }) => <Ago at={created} />) },
];

/** How an event stands as a whole. */
const statuses: Readonly<Record<EventState, Status>> = {
  delivered: { shape: 'good', words: 'Delivered' },
  failed: { shape: 'bad', words: 'Failed' },
  pending: { shape: 'waiting', words: 'Pending' },
  canceled: { shape: 'stopped', words: 'Canceled' },
  none: { shape: 'idle', words: 'No receiver' },
};

/** `2 delivered, 1 failed` */
function countsOf({ deliveries, skipped }: PastEvent): string {
  const parts = [
    [deliveries.failed, 'failed'],
    [deliveries.pending, 'pending'],
    [deliveries.delivered, 'delivered'],
    [deliveries.canceled, 'canceled'],
    [skipped, 'skipped'],
  ] as const;
  const phrases = parts.filter(([n]) => n > 0).map(([n, word]) => `${n} ${word}`);
  return phrases.join(', ') || 'No webhook subscribed';
}

/** One event, and what became of it at each webhook. */
export function EventView({ id, route }: { id: string; route: Route }) {
  const query = useRead('/v1/events/{id}', { path: { id } }, ({ state }) => (state === 'pending' ? liveEvery : null));
  return (
    <Loaded query={query} lines={8} head={<Heading title="Event" up="events" />}>
      {(event) => <Opened event={event} route={route} />}
    </Loaded>
  );
}

function Opened({ event, route }: { event: PastEvent; route: Route }) {
  const webhooks = useWebhooks().data?.data ?? [];
  return (
    <>
      <Heading title={event.type} up="events">
        {event.type} <StatusBadge status={statuses[event.state]} />
        {event.test && <Tag>test</Tag>}
      </Heading>
      {event.skipped > 0 && (
        <Notice>
          {counted(event.skipped, 'webhook was', 'webhooks were')} paused when this happened and did not get it. Recover
          at the webhook sends it.
        </Notice>
      )}
      <Facts
        facts={[
          ['Event', <Id id={event.id} what="event id" />],
          ['Created', <Time at={event.created} />],
          ['Deliveries', countsOf(event)],
        ]}
      />
      <Code title="Data" text={JSON.stringify(event.data)} />
      <DeliveryList route={route} filter={{ event_id: event.id }} webhooks={webhooks} narrowed={false} />
    </>
  );
}
