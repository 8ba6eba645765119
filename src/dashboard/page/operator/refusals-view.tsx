import { refreshEvery, useQuery } from '../data/use-query.ts';
import { Choice } from '../elements/inputs/choice.tsx';
import { TextFilter } from '../elements/inputs/text-filter.tsx';
import { Empty, Loaded } from '../elements/states.tsx';
import type { Route } from '../routing/route.ts';
import { useApi } from '../session/session.ts';
import { Heading } from '../shell/heading.tsx';
import { RefusalsTable } from './refusals-table.tsx';

const ranges = [
  { value: '1', name: 'This hour (UTC)' },
  { value: '168', name: 'Last 7 days' },
];

/** What the gateway refused and why, of all accounts or of one. */
export function RefusalsView({ route }: { route: Route }) {
  const api = useApi();
  const { hours = '24', user } = route.query;
  const query = useQuery((signal) => api.listRefusals({ hours: Number(hours), user_id: user }, { signal }), {
    key: `refusals ${hours} ${user}`,
    every: () => refreshEvery,
  });
  return (
    <>
      <Heading title="Refusals" />
      <search class="filters" aria-label="Choose what is shown">
        <Choice route={route} name="hours" label="Time" any="Last 24 hours" options={ranges} />
        <TextFilter route={route} name="user" label="Account" />
      </search>
      <section class="card" aria-label="Refusals">
        <Loaded query={query}>
          {({ data, has_more }) => (
            <>
              {has_more && <p class="note">Earlier hours are left out: choose a shorter time or one account.</p>}
              {data.length === 0 ? <Empty title="Nothing was refused" /> : <RefusalsTable refusals={data} />}
            </>
          )}
        </Loaded>
      </section>
    </>
  );
}
