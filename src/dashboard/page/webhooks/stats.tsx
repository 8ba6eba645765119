import { useState } from 'preact/hooks';
import type { Stats, StatsHour } from '../data/types.ts';
import { Button } from '../elements/button.tsx';
import { AsTable, BarChart, ColourKey } from '../elements/charts.tsx';
import { count, counted, localTime, milliseconds, percent } from '../elements/format.ts';
import { Card } from '../elements/view.tsx';

const ranges = [
  { name: '24 hours', hours: 24, size: 1 },
  { name: '7 days', hours: 168, size: 4 },
] as const;

/** How a webhook did, in numbers and over time. */
export function StatsCard({ stats }: { stats: Stats }) {
  const [chosen, setChosen] = useState<(typeof ranges)[number]>(ranges[1]);
  const bins = binsOf(stats.hours, chosen.hours, chosen.size);
  const failed = sum(bins, 'failed');
  const label = `Attempts in the last ${chosen.name}: ${count(sum(bins, 'succeeded'))} succeeded, ${counted(failed, 'failure')}`;
  return (
    <Card id="stats" title="Last 7 days">
      <Numbers stats={stats} />
      {stats.attempts > 0 && (
        <div class="chart">
          <div class="wrap spread">
            <h3>Attempts over time</h3>
            {/* biome-ignore lint/a11y/useSemanticElements: a fieldset is for forms */}
            <div class="segmented" role="group" aria-label="Range">
              {ranges.map((range) => (
                <Button key={range.name} kind="quiet" pressed={range === chosen} onClick={() => setChosen(range)}>
                  {range.name}
                </Button>
              ))}
            </div>
          </div>
          <Bars bins={bins} label={label} />
        </div>
      )}
    </Card>
  );
}

function Numbers({ stats }: { stats: Stats }) {
  const time = (ms: number | null) => (ms === null ? '—' : milliseconds(ms));
  const numbers = [
    ['Success rate', stats.success_rate === null ? '—' : percent(stats.success_rate)],
    ['Attempts', count(stats.attempts)],
    ['Failed', count(stats.failed)],
    ['Typical time', time(stats.p50_ms), 'Half of the answers came within this time (p50)'],
    ['Slow time', time(stats.p95_ms), '95% of the answers came within this time (p95)'],
  ] as const;
  return (
    <dl class="card-body numbers numbers-row">
      {numbers.map(([name, value, meaning]) => (
        <div key={name} title={meaning}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Attempts over time, those that failed on top of those that succeeded. A table says the same to readers who cannot see it. */
function Bars({ bins, label }: { bins: readonly Bin[]; label: string }) {
  return (
    <>
      <BarChart
        keys={bins.map(({ start }) => start)}
        series={[
          { name: 'succeeded', colour: 'good-fill', values: bins.map(({ succeeded }) => succeeded) },
          { name: 'failed', colour: 'bad-fill', values: bins.map(({ failed }) => failed) },
        ]}
        rx={1.5}
        axisWidth={34}
        label={label}
        axisText={String}
        labelOf={(i, plotWidth) => labelOf(i, bins, plotWidth < 526)}
        readout={(shown) => <Readout bin={shown === undefined ? undefined : bins[shown]} />}
      />
      <AsTable
        head={['From', 'Succeeded', 'Failed']}
        rows={bins.map(({ start, succeeded, failed }) => ({
          key: start,
          name: localTime(start),
          values: [succeeded, failed],
        }))}
      />
    </>
  );
}

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
    <p class="readout muted small numbers" aria-hidden="true">
      {bin ? (
        <>
          <b>
            {localTime(bin.start).replace(/:00$/, '')} – {hourName.format(new Date(bin.end))}
          </b>
          {` · ${counted(bin.succeeded, 'success', 'successes')} · ${counted(bin.failed, 'failure')}`}
        </>
      ) : (
        <>
          <ColourKey colour="good-fill" /> succeeded <ColourKey colour="bad-fill" /> failed
        </>
      )}
    </p>
  );
}

const sparkHeight = 24;
const sparkStep = 7;
const sparkWidth = 5;

/** Seven days as a sparkline, a bar for twelve hours: failures are at the top of a bar. The text beside it says the same. */
export function Sparkline({ hours }: { hours: readonly StatsHour[] }) {
  const bins = binsOf(hours, 168, 12);
  const top = Math.max(1, ...bins.map(({ succeeded, failed }) => succeeded + failed));
  return (
    <svg
      width={bins.length * sparkStep}
      height={sparkHeight}
      viewBox={`0 0 ${bins.length * sparkStep} ${sparkHeight}`}
      aria-hidden="true"
    >
      {bins.map(({ start, succeeded, failed }, i) => {
        const scale = (sparkHeight - 2) / top;
        const bar = (colour: string, n: number, foot: number) => {
          const height = Math.max(2, n * scale);
          const place = { x: i * sparkStep, y: foot - height, width: sparkWidth, height };
          return <rect fill={`var(--${colour})`} {...place} rx={1} />;
        };
        return (
          <g key={start}>
            {bar('line', 0, sparkHeight)}
            {succeeded > 0 && bar('good-fill', succeeded, sparkHeight)}
            {failed > 0 && bar('bad-fill', failed, sparkHeight - succeeded * scale)}
          </g>
        );
      })}
    </svg>
  );
}

/** Several hours taken together, from `start` on. */
interface Bin extends Pick<StatsHour, 'start' | 'succeeded' | 'failed'> {
  /** ISO 8601. */
  readonly end: string;
}

/** The last `take` hours, `size` of them in a bin. */
function binsOf(hours: readonly StatsHour[], take: number, size: number): Bin[] {
  const lastHours = hours.slice(-take);
  return Array.from({ length: Math.ceil(lastHours.length / size) }, (_, i) => {
    const part = lastHours.slice(i * size, (i + 1) * size);
    const start = part[0]?.start ?? '';
    const last = part.at(-1)?.start ?? start;
    return {
      start,
      end: new Date(Date.parse(last) + 3_600_000).toISOString(),
      succeeded: sum(part, 'succeeded'),
      failed: sum(part, 'failed'),
    };
  });
}

function sum(parts: readonly Bin[] | readonly StatsHour[], of: 'succeeded' | 'failed'): number {
  return parts.reduce((total, part) => total + part[of], 0);
}
