import { useState } from 'preact/hooks';
import { amount } from '../format/number.ts';
import { niceTop } from '../stats/bins.ts';
import { useWidth } from '../stats/use-width.ts';
import type { Series } from './series.ts';

const height = 190;
const left = 44;
const bottom = 22;

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
function Stack({
  series,
  at,
  x,
  width,
  y,
}: {
  series: readonly Series[];
  at: number;
  x: number;
  width: number;
  y: (n: number) => number;
}) {
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
  const [shown, setShown] = useState<number>();
  const [frame, width] = useWidth<HTMLDivElement>(720);
  const totals = days.map((_, i) => series.reduce((sum, { values }) => sum + (values[i] ?? 0), 0));
  const highest = Math.max(0, ...totals);
  const top = highest > 0 && highest < 4 ? highest : niceTop(highest);
  const plot = height - bottom - 8;
  const y = (n: number) => height - bottom - (n / top) * plot;
  const step = (width - left) / Math.max(1, days.length);
  const bar = Math.max(2, step * 0.7);
  const every = Math.ceil(days.length / Math.max(1, Math.floor((width - left) / 56)));
  return (
    <>
      <Legend {...props} shown={shown} />
      <div ref={frame}>
        <svg
          class="bars"
          width={width}
          height={height}
          role="img"
          aria-label={label}
          onPointerMove={(event) => {
            const box = event.currentTarget.getBoundingClientRect();
            const at = Math.floor((event.clientX - box.left - left) / step);
            setShown(at >= 0 && at < days.length ? at : undefined);
          }}
          onPointerLeave={() => setShown(undefined)}
        >
          {[0, top / 2, top].map((n) => (
            <g key={n}>
              <line class="grid" x1={left} x2={width} y1={y(n)} y2={y(n)} />
              <text class="axis" x={left - 8} y={y(n) + 4} text-anchor="end">
                {amount(n)}
              </text>
            </g>
          ))}
          {days.map((day, i) => (
            <g key={day} class={shown === i ? 'shown' : undefined}>
              <rect class="bar-hover" x={left + i * step} y={8} width={step} height={plot} />
              <Stack series={series} at={i} x={left + i * step + (step - bar) / 2} width={bar} y={y} />
              {i % every === 0 && (
                <text class="axis" x={left + i * step} y={height - 6}>
                  {day.slice(5)}
                </text>
              )}
            </g>
          ))}
        </svg>
      </div>
    </>
  );
}
