import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { Filter } from '../data/api.ts';
import { type Query, useRead } from '../data/query.ts';
import { href, type Route } from '../data/route.ts';
import type { Delivery, PastEvent } from '../data/types.ts';
import { sinceOf } from './filters.tsx';
import { Empty, Loaded } from './states.tsx';
import { Pager } from './table.tsx';
import { Card } from './view.tsx';

/** While something is pending, what is shown is this old at most, in milliseconds. */
export const liveEvery = 2_000;
/** While nothing is pending, how often the page looks for something new. */
const quietEvery = 5_000;
const pageSize = 50;
const failedShown = 5;

/** What the lists of `/v1/deliveries` and `/v1/events` hold. */
interface Items {
  readonly deliveries: Delivery;
  readonly events: PastEvent;
}

export type HistoryFilter = Filter<'/v1/deliveries'>;

interface HistoryProps<What extends keyof Items> {
  readonly route: Route;
  readonly what: What;
  /** What it is narrowed to, beside the state and the page, which the address says. */
  readonly filter: HistoryFilter;
  /** Whether that and the state leave something out. */
  readonly narrowed: boolean;
  /** How many failed ones are asked for: more than are shown, for tests are left out. */
  readonly failedAsked: number;
  /** Says what appears here, where there is nothing yet. */
  readonly none: string;
  /** Stands beside the title. */
  readonly aside?: (reload: () => void) => ComponentChildren;
  /** Those of a page, or those that failed. */
  readonly table: (items: readonly Items[What][], caption: string) => ComponentChildren;
  /** Those of a page, where they are shown in another way than those that failed. */
  readonly page?: (items: readonly Items[What][], caption: string, reload: () => void) => ComponentChildren;
}

const capitalized = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** What happened, newest first and one page at a time, the failed ones on top of the first page. */
export function HistoryList<What extends keyof Items>(props: HistoryProps<What>) {
  const { route, what, filter, narrowed, none, aside, table, page = table } = props;
  const { after, state } = route.query;
  const query = useHistory(what, { ...filter, state, after, limit: pageSize });
  const failed = query.data?.data.filter(({ state }) => state === 'failed').map(({ id }) => id) ?? [];
  const empty = narrowed ? (
    <Empty
      title="Nothing matches"
      text={`No ${what === 'events' ? 'event' : 'delivery'} has all of what is asked for above.`}
    />
  ) : (
    <Empty title={`No ${what} yet`} text={none} />
  );
  return (
    <>
      {!state && !after && <FailedFirst {...props} known={failed.join()} />}
      <Card
        label={capitalized(what)}
        title={state ? capitalized(state) : 'All, newest first'}
        aside={aside?.(query.reload)}
      >
        <Loaded query={query} lines={8}>
          {({ data, has_more, next_after }) =>
            data.length === 0 && !has_more ? (
              empty
            ) : (
              <>
                {data.length > 0 ? (
                  page(data, `${capitalized(what)}, newest first`, query.reload)
                ) : (
                  <p class="muted">None so far; older {what} have not been searched yet.</p>
                )}
                <Pager route={route} next={has_more ? (next_after ?? data.at(-1)?.id) : undefined} />
              </>
            )
          }
        </Loaded>
      </Card>
    </>
  );
}

interface Page<T> {
  readonly data: readonly T[];
  readonly has_more: boolean;
  /** What the next page follows, where that is not the last of this one. */
  readonly next_after?: string;
}

function useHistory<What extends keyof Items>(what: What, query: HistoryFilter): Query<Page<Items[What]>> {
  const every = ({ data }: Page<Delivery | PastEvent>) => (data.some(isOpen) ? liveEvery : quietEvery);
  const read: Query<unknown> = useRead<'/v1/deliveries' | '/v1/events'>(`/v1/${what}`, { query }, every);
  return read as Query<Page<Items[What]>>;
}

/** Whether its state can still change without a resend. */
export function isOpen(item: Delivery | PastEvent): boolean {
  return item.state === 'pending' || ('in_flight' in item && item.in_flight);
}

interface FailedProps<What extends keyof Items>
  extends Pick<HistoryProps<What>, 'route' | 'what' | 'filter' | 'failedAsked' | 'table'> {
  /** Which of those in the list below have failed; another one makes it ask again. */
  readonly known: string;
  /** Stands there when none has failed. @default nothing */
  readonly otherwise?: ComponentChildren;
}

/** The latest failed ones of seven days, before everything else; failed tests are in the list alone. */
export function FailedFirst<What extends keyof Items>(props: FailedProps<What>) {
  const { route, what, filter, failedAsked, table, known, otherwise } = props;
  const week = useMemo(() => sinceOf('7d'), []);
  const failedOnes = { ...filter, since: filter.since ?? week, state: 'failed', limit: failedAsked };
  const { data, reload } = useHistory(what, failedOnes);
  const before = useRef(known);
  useEffect(() => {
    if (before.current !== known) reload();
    before.current = known;
  }, [known, reload]);
  const failed = data?.data.filter(({ test }) => !test) ?? [];
  if (failed.length === 0) return data ? otherwise : null;
  const isMore = failed.length > failedShown || data?.has_more;
  return (
    <Card
      bad
      label={`Failed ${what}`}
      title={filter.since === undefined ? 'Failed in the last 7 days' : 'Failed'}
      aside={isMore && <a href={href(route.path, { ...route.query, state: 'failed' })}>See all failed</a>}
    >
      {table(failed.slice(0, failedShown), `Failed ${what}, newest first`)}
    </Card>
  );
}
