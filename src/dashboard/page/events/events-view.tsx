import { useMemo } from 'preact/hooks';
import type { EventFilter } from '../api/types.ts';
import { useQuery } from '../data/use-query.ts';
import { useReloadOn } from '../data/use-reload-on.ts';
import { liveEvery } from '../deliveries/delivery-list.tsx';
import { FailedCard } from '../elements/failed-card.tsx';
import { Choice, Tabs } from '../elements/inputs/choice.tsx';
import { TimeRange } from '../elements/inputs/time-range.tsx';
import { Pager } from '../elements/pager.tsx';
import { Empty, Loaded } from '../elements/states.tsx';
import { periodOf, sinceOf } from '../format/period.ts';
import { href, type Route } from '../routing/route.ts';
import { useApi } from '../session/session.ts';
import { Heading } from '../shell/heading.tsx';
import { EventTable } from './event-table.tsx';
import { useEventTypes } from './use-event-types.ts';

const states = [
  { value: 'failed', name: 'Failed' },
  { value: 'pending', name: 'Pending' },
  { value: 'delivered', name: 'Delivered' },
] as const;

/** Milliseconds. */
const quietEvery = 5_000;
const pageSize = 50;
const failedShown = 5;
/** More than are shown: tests are left out. */
const failedAsked = 25;

function useEvents(filter: EventFilter) {
  const api = useApi();
  return useQuery((signal) => api.listEvents(filter, { signal }), {
    key: JSON.stringify(filter),
    every: ({ data }) => (data.some(({ state }) => state === 'pending') ? liveEvery : quietEvery),
  });
}

/** The latest of seven days that at least one webhook did not get, before everything else; no tests. */
function FailedFirst({ route, known, period }: { route: Route; known: string; period: EventFilter }) {
  const week = useMemo(() => sinceOf('7d'), []);
  const query = useEvents({ since: week, ...period, type: route.query.type, state: 'failed', limit: failedAsked });
  useReloadOn(known, query.reload);
  const failedEvents = query.data?.data.filter(({ test }) => !test) ?? [];
  if (failedEvents.length === 0) return null;
  const isMore = failedEvents.length > failedShown || query.data?.has_more;
  return (
    <FailedCard
      isRange={period.since !== undefined}
      what="events"
      more={isMore ? href(route.path, { ...route.query, state: 'failed' }) : undefined}
    >
      <EventTable caption="Failed events, newest first" events={failedEvents.slice(0, failedShown)} />
    </FailedCard>
  );
}

/** What happened in the account, and who was told. */
export function EventsView({ route }: { route: Route }) {
  const { type, state, after, time, since, until } = route.query;
  // the span moves on with the clock only when it is chosen anew
  const period = useMemo(() => periodOf(route.query), [time, since, until]);
  const narrowed = type || state || time;
  const types = useEventTypes().data?.data ?? [];
  const query = useEvents({ ...period, type, state, after, limit: pageSize });
  const failed = query.data?.data.filter(({ state }) => state === 'failed').map(({ id }) => id) ?? [];
  return (
    <>
      <Heading title="Events" />
      <search class="filters" aria-label="Filter events">
        <Tabs route={route} name="state" label="State" any="All" options={states} />
        <Choice
          route={route}
          name="type"
          label="Event type"
          any="Any type"
          options={types.map(({ type }) => ({ value: type, name: type }))}
        />
        <TimeRange route={route} />
        {narrowed && (
          <a class="clear" href={href(route.path)}>
            Clear filters
          </a>
        )}
      </search>
      {!state && !after && <FailedFirst route={route} known={failed.join()} period={period} />}
      <section class="card" aria-label="Events">
        <div class="card-head">
          <h2>{state ? `${state.charAt(0).toUpperCase()}${state.slice(1)}` : 'All, newest first'}</h2>
        </div>
        <Loaded query={query} lines={8}>
          {({ data, has_more, next_after }) =>
            data.length === 0 && !has_more ? (
              <Empty title={narrowed ? 'Nothing matches' : 'No events yet'}>
                <p class="muted">
                  {narrowed
                    ? 'No event has all of what is asked for above.'
                    : 'Payments, credits, keys and limits of this account appear here as they happen.'}
                </p>
              </Empty>
            ) : (
              <>
                {data.length > 0 ? (
                  <EventTable caption="Events, newest first" events={data} />
                ) : (
                  <p class="muted">None so far; older events have not been searched yet.</p>
                )}
                <Pager route={route} next={has_more ? (next_after ?? data.at(-1)?.id) : undefined} />
              </>
            )
          }
        </Loaded>
      </section>
    </>
  );
}
