import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { omitUndefined } from '../data/api.ts';
import { type Query, useQuery } from '../data/query.ts';
import { href, type Route } from '../data/route.ts';
import type { DeliveryFilter } from '../data/types.ts';
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

interface Item {
  readonly id: string;
  readonly state: string;
  readonly in_flight?: boolean;
  /** Whether it is only a test. */
  readonly test: boolean;
}

interface Page<T> {
  readonly data: readonly T[];
  readonly has_more: boolean;
  /** What the next page follows, where that is not the last of this one. */
  readonly next_after?: string;
}

interface HistoryProps<T extends Item> {
  readonly route: Route;
  readonly one: 'delivery' | 'event';
  readonly what: 'deliveries' | 'events';
  /** What it is narrowed to, beside the state and the page, which the address says. */
  readonly filter: DeliveryFilter;
  /** Whether that and the state leave something out. */
  readonly narrowed: boolean;
  readonly ask: (filter: DeliveryFilter, signal: AbortSignal) => Promise<Page<T>>;
  /** How many failed ones are asked for: more than are shown, for tests are left out. */
  readonly failedAsked: number;
  /** Says what appears here, where there is nothing yet. */
  readonly none: string;
  /** Stands beside the title. */
  readonly aside?: (reload: () => void) => ComponentChildren;
  /** Those of a page, or those that failed. */
  readonly table: (items: readonly T[], caption: string) => ComponentChildren;
  /** Those of a page, where they are shown in another way than those that failed. */
  readonly page?: (items: readonly T[], caption: string, reload: () => void) => ComponentChildren;
}

const capitalized = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** What happened, newest first and one page at a time, the failed ones on top of the first page. */
export function HistoryList<T extends Item>(props: HistoryProps<T>) {
  const { route, what, filter, ask, aside, table, page = table } = props;
  const { after, state } = route.query;
  const query = useHistory(ask, { ...filter, state, after, limit: pageSize });
  const failed = query.data?.data.filter(({ state }) => state === 'failed').map(({ id }) => id) ?? [];
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
              <Nothing {...props} />
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

function Nothing({ one, what, narrowed, none }: Pick<HistoryProps<Item>, 'one' | 'what' | 'narrowed' | 'none'>) {
  return (
    <Empty title={narrowed ? 'Nothing matches' : `No ${what} yet`}>
      <p class="muted">{narrowed ? `No ${one} has all of what is asked for above.` : none}</p>
    </Empty>
  );
}

function useHistory<T extends Item>(ask: HistoryProps<T>['ask'], filter: DeliveryFilter): Query<Page<T>> {
  return useQuery((signal) => ask(filter, signal), {
    key: JSON.stringify(filter),
    every: ({ data }) => (data.some(isOpen) ? liveEvery : quietEvery),
  });
}

/** Whether its state can still change without a resend. */
export function isOpen({ state, in_flight }: Pick<Item, 'state' | 'in_flight'>): boolean {
  return state === 'pending' || in_flight === true;
}

interface FailedProps<T extends Item> extends HistoryProps<T> {
  /** Which of those in the list below have failed; another one makes it ask again. */
  readonly known: string;
}

/** The latest failed ones of seven days, before everything else; failed tests are in the list alone. */
function FailedFirst<T extends Item>({ route, what, filter, ask, failedAsked, table, known }: FailedProps<T>) {
  const since = useMemo(() => sinceOf('7d'), []);
  const failedOnes = { since, ...omitUndefined(filter), state: 'failed', limit: failedAsked };
  const { data, reload } = useHistory(ask, failedOnes);
  const before = useRef(known);
  useEffect(() => {
    if (before.current !== known) reload();
    before.current = known;
  }, [known, reload]);
  const failed = data?.data.filter(({ test }) => !test) ?? [];
  if (failed.length === 0) return null;
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
