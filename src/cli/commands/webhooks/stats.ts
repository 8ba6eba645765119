import { Command } from 'commander';
import { dataOf, type Schemas } from '../../client/api.ts';
import { apiAction, examples } from '../../client/api-command.ts';
import { localTime, momentOf, spanOf } from '../../terminal/moments.ts';
import type { Paint } from '../../terminal/paint.ts';
import { type Column, fieldLines, tableLines } from '../../terminal/table.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { failureText } from './view.ts';

type Stats = Schemas['WebhookStats'];

interface Day {
  readonly day: string;
  readonly succeeded: number;
  readonly failed: number;
}

/** The hours summed up by the reader's own days. */
function daysOf({ hours }: Stats): Day[] {
  const days = new Map<string, Day>();
  for (const { start, succeeded, failed } of hours) {
    const day = localTime(start).slice(0, 10);
    const { succeeded: good = 0, failed: bad = 0 } = days.get(day) ?? {};
    days.set(day, { day, succeeded: good + succeeded, failed: bad + failed });
  }
  return [...days.values()].filter(({ succeeded, failed }) => succeeded + failed > 0);
}

const columns: readonly Column<Day>[] = [
  { header: 'DAY', cell: ({ day }) => day },
  { header: 'SUCCEEDED', cell: ({ succeeded }) => String(succeeded), align: 'right' },
  {
    header: 'FAILED',
    cell: ({ failed }) => (failed > 0 ? { text: String(failed), style: 'red' } : '0'),
    align: 'right',
  },
];

function tookOf({ p50_ms: p50, p95_ms: p95 }: Stats): string | undefined {
  return p50 === null || p95 === null ? undefined : `${spanOf(p50)} for half of them, ${spanOf(p95)} for 95 %`;
}

function lines(stats: Stats, paint: Paint, now: number): string[] {
  const { webhook_id: id, since, attempts, succeeded, success_rate: rate, last_failure: failure } = stats;
  const days = daysOf(stats);
  return [
    ...fieldLines(
      [
        ['Webhook', id],
        ['Since', momentOf(since, now)],
        ['Attempts', String(attempts)],
        ['Succeeded', rate === null ? undefined : `${succeeded} (${(rate * 100).toFixed(1)} %)`],
        ['Took', tookOf(stats)],
        ['Last failure', failure ? failureText(failure, now) : undefined],
      ],
      paint,
    ),
    ...(days.length > 0 ? ['', ...tableLines(columns, days, paint)] : []),
  ];
}

/** `webhooks stats` */
export function webhookStatsCommand(terminal: Terminal): Command {
  return new Command('stats')
    .description('how deliveries to a webhook went in the last seven days')
    .argument('<webhook>', 'its id, wh_…')
    .addHelpText('after', examples('webhooks stats wh_01kaj3m5x2f7q9w4n8r1t6b0zc'))
    .action(
      apiAction(terminal, async ({ api, show }, id: string) => {
        show(await dataOf(api.GET('/v1/webhooks/{id}/stats', { params: { path: { id } } })), lines);
      }),
    );
}
