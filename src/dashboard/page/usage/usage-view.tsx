import { BudgetsCard } from '../budgets/budgets-section.tsx';
import { refreshEvery, useQuery } from '../data/use-query.ts';
import { Choice, Tabs } from '../elements/inputs/choice.tsx';
import { Empty, Loaded } from '../elements/states.tsx';
import type { Route } from '../routing/route.ts';
import { useApi, useSession } from '../session/session.ts';
import { Heading } from '../shell/heading.tsx';
import { CreditsCard } from './credits-card.tsx';
import { type Dimension, daysBetween, type Measure, measures, seriesOf } from './series.ts';
import { UsageChart } from './usage-chart.tsx';
import { UsageByDay, UsageTable } from './usage-table.tsx';

const ranges = ['7', '90', '365'].map((value) => ({ value, name: `Last ${value} days` }));

function dayBefore(n: number): string {
  return new Date(Date.now() - n * 86_400_000).toISOString().slice(0, 10);
}

/** The names of keys, for those who may see them. */
function useKeyNames(): (id: string) => string {
  const api = useApi();
  const mayRead = useSession().scopes.includes('keys');
  const query = useQuery(async (signal) => (mayRead ? (await api.listApiKeys({ limit: 100 }, { signal })).data : []), {
    key: `keys ${mayRead}`,
  });
  const names = new Map(query.data?.map(({ id, name }) => [id, name]));
  return (id) => names.get(id) || id;
}

function useUsage(from: string, to: string, group_by: string) {
  const api = useApi();
  return useQuery((signal) => api.retrieveUsage({ from, to, group_by }, { signal }), {
    key: `${from} ${to} ${group_by}`,
    every: () => refreshEvery,
  });
}

/** What the address says, or else what is shown at first. */
function shownOf({ query }: Route): { range: number; by: Dimension; measure: Measure } {
  const range = ranges.some(({ value }) => value === query.days) ? Number(query.days) : 30;
  const measure = query.show === 'tokens' || query.show === 'credits' ? query.show : 'requests';
  return { range, by: query.by === 'key' ? 'key' : 'model', measure };
}

/** What model calls used and cost, over time, and what is left. */
export function UsageView({ route }: { route: Route }) {
  const { range, by, measure } = shownOf(route);
  const [from, to] = [dayBefore(range - 1), dayBefore(0)];
  const totals = useUsage(from, to, by);
  const byDay = useUsage(from, to, `day,${by}`);
  const keyName = useKeyNames();
  const nameOf = by === 'key' ? keyName : (name: string) => name;
  const days = daysBetween(from, to);
  return (
    <>
      <Heading title="Usage" />
      <CreditsCard />
      <BudgetsCard />
      <search class="filters" aria-label="Choose what is shown">
        <Tabs route={route} name="by" label="By" any="By model" options={[{ value: 'key', name: 'By key' }]} />
        <Choice
          route={route}
          name="show"
          label="Chart"
          any={measures.requests.name}
          options={(['tokens', 'credits'] as const).map((value) => ({ value, name: measures[value].name }))}
        />
        <Choice route={route} name="days" label="Days" any="Last 30 days" options={ranges} />
      </search>
      <section class="card" aria-labelledby="by-group">
        <div class="card-head">
          <h2 id="by-group">
            By {by}, last {range} days
          </h2>
          <span class="muted small">
            {from} to {to}, UTC
          </span>
        </div>
        <Loaded query={byDay}>
          {({ data, has_more }) => {
            const series = seriesOf(data, { days, by, measure });
            if (data.length === 0) return null;
            const label = `${measures[measure].name} by day and ${by}, ${from} to ${to}`;
            return (
              <div class="chart">
                {has_more && <p class="note">The chart does not show all: choose fewer days.</p>}
                {series.length === 0 && <p class="muted">No usage in this period.</p>}
                {series.length > 0 && <UsageChart days={days} series={series} label={label} nameOf={nameOf} />}
                {series.length > 0 && <UsageByDay days={days} series={series} nameOf={nameOf} />}
              </div>
            );
          }}
        </Loaded>
        <Loaded query={totals}>
          {({ data }) =>
            data.length === 0 ? (
              <Empty title="Nothing used yet">
                <p class="muted">Each model call is counted here a moment after it has ended.</p>
              </Empty>
            ) : (
              <UsageTable lines={data} by={by} nameOf={nameOf} />
            )
          }
        </Loaded>
      </section>
    </>
  );
}
