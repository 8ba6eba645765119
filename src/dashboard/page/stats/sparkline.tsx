import type { StatsHour } from '../api/types.ts';
import { binsOf } from './bins.ts';

const height = 24;
const step = 7;
const width = 5;

/** Seven days as a sparkline, a bar for six hours: failures are at the top of a bar. The text beside it says the same. */
export function Sparkline({ hours }: { hours: readonly StatsHour[] }) {
  const bins = binsOf(hours, 168, 12);
  const top = Math.max(1, ...bins.map(({ succeeded, failed }) => succeeded + failed));
  return (
    <svg
      class="spark"
      width={bins.length * step}
      height={height}
      viewBox={`0 0 ${bins.length * step} ${height}`}
      aria-hidden="true"
    >
      {bins.map(({ start, succeeded, failed }, i) => {
        const good = (succeeded / top) * (height - 2);
        const bad = (failed / top) * (height - 2);
        const x = i * step;
        return (
          <g key={start}>
            <rect class="spark-base" x={x} y={height - 2} width={width} height={2} rx={1} />
            {succeeded > 0 && (
              <rect
                class="bar-good"
                x={x}
                y={height - Math.max(2, good)}
                width={width}
                height={Math.max(2, good)}
                rx={1}
              />
            )}
            {failed > 0 && (
              <rect
                class="bar-bad"
                x={x}
                y={height - good - Math.max(2, bad)}
                width={width}
                height={Math.max(2, bad)}
                rx={1}
              />
            )}
          </g>
        );
      })}
    </svg>
  );
}
