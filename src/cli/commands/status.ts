import type { Command } from 'commander';
import { dataFrom, type Schemas } from '../client/api.ts';
import { ApiCommand } from '../client/api-command.ts';
import { type Cell, type Column, detailLines, listLines, tableLines } from '../terminal/table.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { figure, relative, spanOf } from '../terminal/text.ts';

function spanOrNone(seconds: number | null): string {
  return seconds === null ? '-' : spanOf(seconds * 1_000);
}

/** How much of something waits, and for how long the oldest of it. */
function waiting(count: number, isMore: boolean, oldest: number | null = null): string {
  const since = count > 0 && oldest !== null ? `, the oldest for ${spanOrNone(oldest)}` : '';
  return `${figure(count)}${isMore ? ' or more' : ''}${since}`;
}

const backlogLines = detailLines((backlog: Schemas['Backlog']) => [
  ['Deliveries due', waiting(backlog.due, backlog.due_is_more, backlog.oldest_due_seconds)],
  ['Due later', waiting(backlog.scheduled, backlog.scheduled_is_more)],
  ['Events to fan out', waiting(backlog.fan_outs_pending, backlog.fan_outs_is_more, backlog.oldest_fan_out_seconds)],
  ['Attempts under way', figure(backlog.in_progress)],
]);

const processColumns: readonly Column<Schemas['GatewayProcess']>[] = [
  { header: 'PROCESS', cell: ({ hostname, pid }) => `${hostname}, pid ${pid}` },
  { header: 'ROLE', cell: ({ role }) => role },
  { header: 'VERSION', cell: ({ version }) => version },
  { header: 'STARTED', cell: ({ started_at: at }, now) => relative(at, now) },
  {
    header: 'SEEN',
    cell: ({ is_live: isLive, seen_at: at }, now) =>
      isLive ? relative(at, now) : { text: relative(at, now), style: 'red' },
  },
  { header: 'LATE', cell: ({ event_loop_lag_seconds: lag }) => spanOrNone(lag), align: 'right' },
  { header: 'CALLS', cell: ({ relayed_calls_in_progress: calls }) => figure(calls), align: 'right' },
  { header: 'ATTEMPTS', cell: ({ attempts_in_progress: attempts }) => figure(attempts), align: 'right' },
];

function breakerCell({ breaker: { open, half_open: halfOpen }, processes }: Schemas['UpstreamStatus']): Cell {
  const away = open + halfOpen;
  return away > 0 ? { text: `open in ${away} of ${processes}`, style: 'red' } : 'closed';
}

function errorsCell({ errors, error_codes: codes }: Schemas['UpstreamStatus']): Cell {
  const named = Object.entries(codes).map(([code, count]) => `${figure(count)} ${code}`);
  return errors > 0 ? { text: named.join(', '), style: 'red' } : '0';
}

const upstreamColumns: readonly Column<Schemas['UpstreamStatus']>[] = [
  { header: 'UPSTREAM', cell: ({ name }) => name },
  { header: 'BREAKER', cell: breakerCell },
  { header: 'REQUESTS', cell: ({ requests }) => figure(requests), align: 'right' },
  { header: 'FIRST BYTE P50', cell: ({ time_to_first_byte_seconds: { p50 } }) => spanOrNone(p50), align: 'right' },
  { header: 'P95', cell: ({ time_to_first_byte_seconds: { p95 } }) => spanOrNone(p95), align: 'right' },
  { header: 'ERRORS', cell: errorsCell },
];

export function statusCommand(terminal: Terminal): Command {
  const description = 'the backlog, the processes and the upstreams; needs a key with the scope admin';
  return new ApiCommand(terminal, 'status', description)
    .examples('status', 'status --json | jq .backlog.oldest_due_seconds')
    .runs(async ({ api, show }) => {
      const [backlog, { data: processes }, { data: upstreams }] = await Promise.all([
        dataFrom(api.GET('/v1/admin/backlog')),
        dataFrom(api.GET('/v1/admin/processes')),
        dataFrom(api.GET('/v1/admin/upstreams')),
      ]);
      show({ backlog, processes, upstreams }, (_, paint, now) => [
        ...backlogLines(backlog, paint, now),
        '',
        ...tableLines(processColumns, processes, paint, now),
        '',
        ...listLines(upstreamColumns, 'No upstreams.')({ data: upstreams }, paint, now),
        '',
        'Upstreams: of the last 5 minutes, in all live processes.',
      ]);
    });
}
