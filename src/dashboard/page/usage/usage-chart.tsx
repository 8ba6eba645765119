import { amount } from '../format/number.ts';
import { BarChart, type BarPlace } from '../stats/bar-chart.tsx';
import { niceTop } from '../stats/bins.ts';
import type { Series } from './series.ts';

interface Props {
  readonly days: readonly string[];
  readonly series: readonly Series[];
  readonly label: string;
  /** A series' name as it is shown. */
  readonly nameOf: (name: string) => string;
}

function Legend({ days, series, nameOf, shown }: Props & { readonly shown: number | undefined }) {
  return (
    <p class="readout numbers">
      {shown !== undefined && <b>{days[shown]} </b>}
      {series.map(({ name, values }, i) => (
        <span key={name} class="legend">
          <span class={`key series-${i}`} /> {nameOf(name)}
          {shown !== undefined && ` ${amount(values[shown] ?? 0)}`}
        </span>
      ))}
    </p>
  );
}

/** One day's values, one on top of the other. */
function Stack({ series, at, x, width, y }: BarPlace & { readonly series: readonly Series[]; readonly at: number }) {
  let below = 0;
  return (
    <>
      {series.map(({ name, values }, i) => {
        const value = values[at] ?? 0;
        const from = below;
        below += value;
        if (value === 0) return null;
        return <rect key={name} class={`series-${i}`} x={x} y={y(below)} width={width} height={y(from) - y(below)} />;
      })}
    </>
  );
}

/** Usage by day, a bar for each. A table says the same to readers who cannot see it. */
export function UsageChart(props: Props) {
  const { days, series, label } = props;
  const totals = days.map((_, i) => series.reduce((sum, { values }) => sum + (values[i] ?? 0), 0));
  const highest = Math.max(0, ...totals);
  const labelOf = (i: number, plotWidth: number) => {
    const every = Math.ceil(days.length / Math.max(1, Math.floor(plotWidth / 56)));
    return i % every === 0 ? (days[i]?.slice(5) ?? null) : null;
  };
  return (
    <BarChart
      keys={days}
      top={highest > 0 && highest < 4 ? highest : niceTop(highest)}
      axisWidth={44}
      label={label}
      axisText={amount}
      labelOf={labelOf}
      readout={(shown) => <Legend {...props} shown={shown} />}
    >
      {(i, place) => <Stack series={series} at={i} {...place} />}
    </BarChart>
  );
}
