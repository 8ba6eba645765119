import { gatewaySettings } from '../data/api.ts';
import { refreshEvery, useRead } from '../data/query.ts';
import type { Route } from '../data/route.ts';
import type { UsageLine } from '../data/types.ts';
import { Badge } from '../elements/badge.tsx';
import { AsTable, BarChart, ColourKey, niceTop } from '../elements/charts.tsx';
import { Choice, Filters, Tabs } from '../elements/filters.tsx';
import { amount, bytes, count } from '../elements/format.ts';
import { Empty, Loaded } from '../elements/states.tsx';
import { type Column, endNumbers, rowNames, Table } from '../elements/table.tsx';
import { Card, Heading } from '../elements/view.tsx';
import { BudgetsCard } from './budgets.tsx';
import { useKeyNames } from './keys-view.tsx';
import { type Dimension, daysBetween, groupOf, type Measure, measures, type Series, seriesOf } from './usage-series.ts';

const ranges = ['7', '90', '365'].map((value) => ({ value, name: `Last ${value} days` }));

/** What model calls used and cost, over time, and what is left. */
export function UsageView({ route }: { route: Route }) {
  const { range, by, measure } = shownOf(route);
  const [from, to] = [dayBefore(range - 1), dayBefore(0)];
  const totals = useRead('/v1/usage', { query: { from, to, group_by: by } }, refreshEvery);
  const byDay = useRead('/v1/usage', { query: { from, to, group_by: `day,${by}` } }, refreshEvery);
  const keyName = useKeyNames();
  const nameOf = by === 'key' ? keyName : (name: string) => name;
  const days = daysBetween(from, to);
  return (
    <>
      <Heading title="Usage" />
      {gatewaySettings().hasCredits && <CreditsCard />}
      <BudgetsCard />
      <Filters>
        <Tabs route={route} name="by" label="By" any="By model" options={[{ value: 'key', name: 'By key' }]} />
        <Choice
          route={route}
          name="show"
          label="Chart"
          any={measures.requests.name}
          options={(['tokens', 'credits'] as const).map((value) => ({ value, name: measures[value].name }))}
        />
        <Choice route={route} name="days" label="Days" any="Last 30 days" options={ranges} />
      </Filters>
      <Card
        id="by-group"
        title={`By ${by}, last ${range} days`}
        aside={<span class="muted small">{`${from} to ${to}, UTC`}</span>}
      >
        <Loaded query={byDay}>
          {({ data, has_more }) => {
            const series = seriesOf(data, { days, by, measure });
            if (data.length === 0) return null;
            const label = `${measures[measure].name} by day and ${by}, ${from} to ${to}`;
            return (
              <div class="chart">
                {has_more && <p class="note">The chart does not show all: choose fewer days.</p>}
                {series.length === 0 ? (
                  <p class="muted">No usage in this period.</p>
                ) : (
                  <UsageChart days={days} series={series} label={label} nameOf={nameOf} />
                )}
              </div>
            );
          }}
        </Loaded>
        <Loaded query={totals}>{({ data }) => <UsageTable lines={data} by={by} nameOf={nameOf} />}</Loaded>
      </Card>
    </>
  );
}

/** What the address says, or else what is shown at first. */
function shownOf({ query }: Route): { range: number; by: Dimension; measure: Measure } {
  const range = ranges.some(({ value }) => value === query.days) ? Number(query.days) : 30;
  const measure = query.show === 'tokens' || query.show === 'credits' ? query.show : 'requests';
  return { range, by: query.by === 'key' ? 'key' : 'model', measure };
}

/** The day, UTC, so many days ago. */
export function dayBefore(n: number): string {
  return new Date(Date.now() - n * 86_400_000).toISOString().slice(0, 10);
}

/** What is left. */
function CreditsCard() {
  const query = useRead('/v1/credits', {}, refreshEvery);
  return (
    <Card text id="credits" title="Credits">
      <Loaded query={query} lines={1}>
        {({ credits_remaining, low_threshold }) => (
          <p class="big numbers">
            {count(credits_remaining)} <span class="muted small">left</span>{' '}
            {low_threshold !== null && credits_remaining < low_threshold && <Badge shape="bad">Low</Badge>}
          </p>
        )}
      </Loaded>
    </Card>
  );
}

interface ChartProps {
  readonly days: readonly string[];
  readonly series: readonly Series[];
  readonly label: string;
  /** A series' name as it is shown. */
  readonly nameOf: (name: string) => string;
}

/** Usage by day, a bar for each. A table, without the days that have none, says the same to readers who cannot see it. */
export function UsageChart({ days, series, label, nameOf }: ChartProps) {
  const labelOf = (i: number, plotWidth: number) => {
    const every = Math.ceil(days.length / Math.max(1, Math.floor(plotWidth / 56)));
    return i % every === 0 ? (days[i]?.slice(5) ?? null) : null;
  };
  const legend = (shown: number | undefined) => (
    <p class="readout muted small numbers">
      {shown !== undefined && <b>{days[shown]} </b>}
      {series.map(({ name, values }, i) => (
        <span key={name} class="legend">
          <ColourKey colour={`series-${i}`} /> {nameOf(name)}
          {shown !== undefined && ` ${amount(values[shown] ?? 0)}`}
        </span>
      ))}
    </p>
  );
  const rows = days.map((day, i) => ({ key: day, name: day, values: series.map(({ values }) => values[i] ?? 0) }));
  return (
    <>
      <BarChart
        keys={days}
        series={series.map((part, i) => ({ ...part, colour: `series-${i}` }))}
        topOf={(highest) => (highest > 0 && highest < 4 ? highest : niceTop(highest))}
        axisWidth={44}
        label={label}
        axisText={amount}
        labelOf={labelOf}
        readout={legend}
      />
      <AsTable
        head={['Day, UTC', ...series.map(({ name }) => nameOf(name))]}
        rows={rows
          .filter(({ values }) => values.some((value) => value > 0))
          .map((row) => ({ ...row, values: row.values.map(amount) }))}
      />
    </>
  );
}

interface TableProps extends Pick<ChartProps, 'nameOf'> {
  readonly lines: readonly UsageLine[];
  readonly by: Dimension;
}

/** What each model or key used in all; reasoning is a part of the tokens out. */
function UsageTable({ lines, by, nameOf }: TableProps) {
  const hasReasoning = lines.some(({ reasoning_tokens }) => reasoning_tokens > 0);
  // audio that is not counted in tokens
  const hasAudio = lines.some(({ seconds, characters }) => seconds + characters > 0);
  const hasUnits = lines.some(({ units = 0 }) => units > 0);
  const hasFiles = lines.some(({ uploaded_bytes, downloaded_bytes }) => uploaded_bytes + downloaded_bytes > 0);
  const hasPrices = lines.some(({ credits }) => credits !== undefined);
  const columns: (Column<UsageLine> | null)[] = [
    {
      width: '40%',
      ...rowNames(by === 'model' ? 'Model' : 'API key', (line) => <code>{nameOf(groupOf(line, by))}</code>),
    },
    amounts('Requests', ({ requests }) => requests),
    amounts('Tokens in', ({ input_tokens }) => input_tokens),
    amounts('Tokens out', ({ output_tokens }) => output_tokens),
    hasReasoning ? amounts('Reasoning', ({ reasoning_tokens }) => reasoning_tokens) : null,
    amounts('Images', ({ images }) => images),
    hasAudio ? amounts('Seconds', ({ seconds }) => seconds) : null,
    hasAudio ? amounts('Characters', ({ characters }) => characters) : null,
    hasUnits ? amounts('Units', ({ units = 0 }) => units) : null,
    hasFiles ? amounts('Uploaded', ({ uploaded_bytes }) => uploaded_bytes, bytes) : null,
    hasFiles ? amounts('Downloaded', ({ downloaded_bytes }) => downloaded_bytes, bytes) : null,
    hasPrices ? amounts('Credits', ({ credits }) => credits ?? 0) : null,
  ];
  const empty = <Empty title="Nothing used yet" text="Each model call is counted here a moment after it has ended." />;
  return <Table kind="usage" columns={columns} rows={lines} keyOf={(line) => groupOf(line, by)} empty={empty} />;
}

function amounts(name: string, of: (used: UsageLine) => number, text = amount): Column<UsageLine> {
  return { ...endNumbers(name, (used) => text(of(used))), name };
}
