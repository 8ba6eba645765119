import { useState } from 'preact/hooks';
import type { Stats } from '../api/types.ts';
import { Button } from '../elements/inputs/button.tsx';
import { count, counted, milliseconds, percent } from '../format/number.ts';
import { localTime } from '../format/time.ts';
import { AsTable } from './as-table.tsx';
import { Bars } from './bars.tsx';
import { binsOf } from './bins.ts';

const ranges = [
  { name: '24 hours', hours: 24, size: 1 },
  { name: '7 days', hours: 168, size: 4 },
] as const;

function Numbers({ stats }: { stats: Stats }) {
  const numbers = [
    ['Success rate', stats.success_rate === null ? '—' : percent(stats.success_rate)],
    ['Attempts', count(stats.attempts)],
    ['Failed', count(stats.failed)],
    [
      'Typical time',
      stats.p50_ms === null ? '—' : milliseconds(stats.p50_ms),
      'Half of the answers came within this time (p50)',
    ],
    [
      'Slow time',
      stats.p95_ms === null ? '—' : milliseconds(stats.p95_ms),
      '95% of the answers came within this time (p95)',
    ],
  ] as const;
  return (
    <dl class="numbers-row">
      {numbers.map(([name, value, meaning]) => (
        <div key={name} title={meaning}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** How a webhook did, in numbers and over time. */
export function StatsCard({ stats }: { stats: Stats }) {
  const [chosen, setChosen] = useState<(typeof ranges)[number]>(ranges[1]);
  const bins = binsOf(stats.hours, chosen.hours, chosen.size);
  const failed = bins.reduce((sum, bin) => sum + bin.failed, 0);
  const succeeded = bins.reduce((sum, bin) => sum + bin.succeeded, 0);
  const label = `Attempts in the last ${chosen.name}: ${count(succeeded)} succeeded, ${counted(failed, 'failure')}`;
  return (
    <section class="card" aria-labelledby="stats">
      <div class="card-head">
        <h2 id="stats">Last 7 days</h2>
      </div>
      <Numbers stats={stats} />
      {stats.attempts > 0 && (
        <div class="chart">
          <div class="chart-head">
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
          <AsTable
            head={['From', 'Succeeded', 'Failed']}
            rows={bins.map(({ start, succeeded, failed }) => ({
              key: start,
              name: localTime(start),
              values: [succeeded, failed],
            }))}
          />
        </div>
      )}
    </section>
  );
}
