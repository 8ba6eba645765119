import { useMemo } from 'preact/hooks';
import { omitUndefined } from '../api/omit-undefined.ts';
import type { DeliveryFilter, WebhookSummary } from '../api/types.ts';
import { useQuery } from '../data/use-query.ts';
import { useReloadOn } from '../data/use-reload-on.ts';
import { FailedCard } from '../elements/failed-card.tsx';
import { Pager } from '../elements/pager.tsx';
import { Empty, Loaded } from '../elements/states.tsx';
import { sinceOf } from '../format/period.ts';
import { href, type Route } from '../routing/route.ts';
import { useApi } from '../session/session.ts';
import { DeliveryTable } from './delivery-table.tsx';
import { RecoverMatching } from './recover-matching.tsx';
import { ResendSelected, useSelection } from './selection.tsx';
import { isOpen } from './words.ts';

/** While something is pending, what is shown is this old at most, in milliseconds. */
export const liveEvery = 2_000;
/** While nothing is pending, how often the page looks for something new. */
const quietEvery = 5_000;
const pageSize = 50;
const failedShown = 5;
/** More than are shown: tests are left out. */
const failedAsked = 50;

interface Props {
  readonly route: Route;
  readonly filter: DeliveryFilter;
  readonly hosts?: ReadonlyMap<string, string> | undefined;
  /** The account's, where what a filter finds can be recovered. */
  readonly webhooks?: readonly WebhookSummary[] | undefined;
  /** Whether there is a filter, for the text that is shown when nothing is found. */
  readonly narrowed: boolean;
}

function useDeliveries(filter: DeliveryFilter) {
  const api = useApi();
  return useQuery((signal) => api.listDeliveries(filter, { signal }), {
    key: JSON.stringify(filter),
    every: ({ data }) => (data.some(isOpen) ? liveEvery : quietEvery),
  });
}

interface FailedProps extends Omit<Props, 'narrowed'> {
  /** Which of those in the list below have failed; another one makes it ask again. */
  readonly known: string;
}

/** The latest failed ones of seven days, before everything else; failed tests are in the list alone. */
function FailedFirst({ route, filter, hosts, known }: FailedProps) {
  const since = useMemo(() => sinceOf('7d'), []);
  const query = useDeliveries({ since, ...omitUndefined(filter), state: 'failed', limit: failedAsked });
  useReloadOn(known, query.reload);
  const failed = query.data?.data.filter(({ test }) => !test) ?? [];
  if (failed.length === 0) return null;
  const isMore = failed.length > failedShown || query.data?.has_more;
  return (
    <FailedCard
      isRange={filter.since !== undefined}
      what="deliveries"
      more={isMore ? href(route.path, { ...route.query, state: 'failed' }) : undefined}
    >
      <DeliveryTable
        caption="Failed deliveries, newest first"
        deliveries={failed.slice(0, failedShown)}
        hosts={hosts}
      />
    </FailedCard>
  );
}

function Nothing({ narrowed }: { narrowed: boolean }) {
  return narrowed ? (
    <Empty title="Nothing matches">
      <p class="muted">No delivery has all of what is asked for above.</p>
    </Empty>
  ) : (
    <Empty title="No deliveries yet">
      <p class="muted">Each event that is sent to a webhook appears here at once. Send a test event to see one.</p>
    </Empty>
  );
}

/** Deliveries, newest first and one page at a time, the failed ones on top of the first page. */
export function DeliveryList({ route, filter, hosts, webhooks, narrowed }: Props) {
  const { after, state } = route.query;
  const query = useDeliveries({
    ...filter,
    state,
    after,
    limit: pageSize,
  });
  const selection = useSelection();
  const failed = query.data?.data.filter(({ state }) => state === 'failed').map(({ id }) => id) ?? [];
  return (
    <>
      {!state && !after && <FailedFirst route={route} filter={filter} hosts={hosts} known={failed.join()} />}
      <section class="card" aria-label="Deliveries">
        <div class="card-head">
          <h2>{state ? `${state.charAt(0).toUpperCase()}${state.slice(1)}` : 'All, newest first'}</h2>
          {webhooks && (state === 'failed' || state === 'canceled') && (
            <RecoverMatching filter={filter} state={state} webhooks={webhooks} onStarted={query.reload} />
          )}
        </div>
        <Loaded query={query} lines={8}>
          {({ data, has_more, next_after }) =>
            data.length === 0 && !has_more ? (
              <Nothing narrowed={narrowed} />
            ) : (
              <>
                {data.length > 0 ? (
                  <>
                    <ResendSelected deliveries={data} selection={selection} onSent={query.reload} />
                    <DeliveryTable
                      caption="Deliveries, newest first"
                      deliveries={data}
                      hosts={hosts}
                      selection={selection}
                    />
                  </>
                ) : (
                  <p class="muted">None so far; older deliveries have not been searched yet.</p>
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
