import { counted } from '../format/number.ts';
import { localTime } from '../format/time.ts';
import { BarChart } from './bar-chart.tsx';
import { type Bin, niceTop } from './bins.ts';

const weekday = new Intl.DateTimeFormat(undefined, { weekday: 'short' });
const hourName = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });

/** A label where a day begins, or every few hours of a single day. */
function labelOf(i: number, bins: readonly Bin[], narrow: boolean): string | null {
  const start = new Date(bins[i]?.start ?? 0);
  if (bins.length <= 24) return i % 6 === 0 ? hourName.format(start) : null;
  const before = bins[i - 1];
  if (!before || new Date(before.start).getDate() === start.getDate()) return null;
  return narrow ? weekday.format(start) : `${weekday.format(start)} ${start.getDate()}`;
}

function Readout({ bin }: { bin: Bin | undefined }) {
  return (
    <p class="readout numbers" aria-hidden="true">
      {bin ? (
        <>
          <b>
            {localTime(bin.start).replace(/:00$/, '')} – {hourName.format(new Date(bin.end))}
          </b>
          {` · ${counted(bin.succeeded, 'success', 'successes')} · ${counted(bin.failed, 'failure')}`}
        </>
      ) : (
        <>
          <span class="key key-good" /> succeeded <span class="key key-bad" /> failed
        </>
      )}
    </p>
  );
}

/** Attempts over time, those that failed on top of those that succeeded. A table says the same to readers who cannot see it. */
export function Bars({ bins, label }: { bins: readonly Bin[]; label: string }) {
  return (
    <BarChart
      keys={bins.map(({ start }) => start)}
      top={niceTop(Math.max(0, ...bins.map(({ succeeded, failed }) => succeeded + failed)))}
      axisWidth={34}
      label={label}
      axisText={String}
      labelOf={(i, plotWidth) => labelOf(i, bins, plotWidth < 526)}
      readout={(shown) => <Readout bin={shown === undefined ? undefined : bins[shown]} />}
    >
      {(i, { x, width, y }) => {
        const { succeeded = 0, failed = 0 } = bins[i] ?? {};
        const [foot, middle, head] = [y(0), y(succeeded), y(succeeded + failed)];
        return (
          <>
            {succeeded > 0 && <rect class="bar-good" x={x} y={middle} width={width} height={foot - middle} rx={1.5} />}
            {failed > 0 && <rect class="bar-bad" x={x} y={head} width={width} height={middle - head} rx={1.5} />}
          </>
        );
      }}
    </BarChart>
  );
}
