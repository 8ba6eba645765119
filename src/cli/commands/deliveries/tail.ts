import { setTimeout as sleep } from 'node:timers/promises';
import { Command, InvalidArgumentError, Option } from 'commander';
import { dataOf, type Schemas } from '../../client/api.ts';
import { apiAction, examples } from '../../client/api-command.ts';
import type { CommandContext } from '../../client/context.ts';
import { count } from '../../client/flags.ts';
import { retryWhileUnavailable } from '../../client/retry-while-unavailable.ts';
import { parseDuration } from '../../config/duration.ts';
import { localTime, relative } from '../../terminal/moments.ts';
import type { Paint } from '../../terminal/paint.ts';
import { toJson } from '../../terminal/printable.ts';
import { type Column, tableLines } from '../../terminal/table.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { type FilterOptions, toQuery, withFilter } from './filter.ts';
import { follow } from './follow.ts';
import { attemptsOf, lastOf, stateCell } from './view.ts';

interface Options extends FilterOptions {
  readonly lines: number;
  /** Milliseconds. */
  readonly interval: number;
}

const minInterval = 200;

function readInterval(text: string): number {
  const ms = parseDuration(text);
  if (ms !== undefined && ms >= minInterval && ms <= 3_600_000) return ms;
  throw new InvalidArgumentError('It must be a duration such as 500ms, 2s or 1m.');
}

/** When it ended, which may be a while ago for the first lines; else it has just been seen. */
function timeOf(ended: string | null, now: number): string {
  return localTime(ended ?? new Date(now).toISOString()).slice(11);
}

/** Lines come one at a time, so each column has its width from the start. */
function columns(now: number): readonly Column<Schemas['DeliverySummary']>[] {
  return [
    { header: '', cell: ({ ended_at: at }) => ({ text: timeOf(at, now), style: 'dim' }) },
    { header: '', cell: ({ id }) => id },
    { header: '', cell: stateCell, width: 9 },
    { header: '', cell: attemptsOf },
    { header: '', cell: lastOf, width: 15 },
    { header: '', cell: ({ next_attempt_at: at }) => (at ? `next ${relative(at, now)}` : ''), width: 11 },
    { header: '', cell: ({ webhook_id: id }) => id },
    { header: '', cell: ({ type, test }) => (test ? `${type} (test)` : type) },
  ];
}

/** What a delivery has just become, in one line. */
function tailLine(delivery: Schemas['DeliverySummary'], paint: Paint, now: number): string {
  const [, line = ''] = tableLines(columns(now), [delivery], paint);
  return line;
}

async function tail({ api, terminal, json }: CommandContext, options: Options): Promise<void> {
  const interrupted = terminal.interruption();
  const filter = toQuery(options);
  const deliveries = follow({
    list: (query) => dataOf(api.GET('/v1/deliveries', { params: { query: { ...filter, ...query } } })),
    get: (id) => dataOf(api.GET('/v1/deliveries/{id}', { params: { path: { id } } })),
    now: terminal.now,
    past: options.lines,
    since: filter.since,
  });
  const changes = retryWhileUnavailable(() => deliveries.changes(), terminal);
  while (!interrupted.aborted) {
    for (const delivery of await changes()) {
      terminal.print(json ? toJson(delivery) : tailLine(delivery, terminal.paint, terminal.now()));
    }
    await sleep(options.interval, undefined, { signal: interrupted }).catch(() => {});
  }
}

/** `deliveries tail` */
export function tailCommand(terminal: Terminal): Command {
  const command = new Command('tail').description('follow deliveries live, a line for each change, until Ctrl-C');
  return withFilter(command, terminal)
    .option('--lines <n>', 'how many past ones to start with', count, 10)
    .addOption(new Option('--interval <duration>', 'how often to look').argParser(readInterval).default(2_000, '2s'))
    .addHelpText('after', examples('deliveries tail', 'deliveries tail --webhook wh_01kaj3m5x2f7q9w4n8r1t6b0zc --json'))
    .action(apiAction(terminal, tail));
}
