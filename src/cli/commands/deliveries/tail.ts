import { setTimeout as sleep } from 'node:timers/promises';
import { Command, InvalidArgumentError, Option } from 'commander';
import { dataOf } from '../../client/api.ts';
import { calling, examples } from '../../client/api-command.ts';
import type { Call } from '../../client/call.ts';
import { count } from '../../client/flags.ts';
import { parseDuration } from '../../config/duration.ts';
import { PassingFailure } from '../../terminal/command-failure.ts';
import { toJson } from '../../terminal/printable.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { type FilterOptions, toQuery, withFilter } from './filter.ts';
import { follow } from './follow.ts';
import { tailLine } from './tail-line.ts';

interface Options extends FilterOptions {
  readonly lines: number;
  /** Milliseconds. */
  readonly interval: number;
}

const shortest = 200;

function readInterval(text: string): number {
  const ms = parseDuration(text);
  if (ms !== undefined && ms >= shortest && ms <= 3_600_000) return ms;
  throw new InvalidArgumentError('It must be a duration such as 500ms, 2s or 1m.');
}

/** Looks again after a gateway was restarted or busy, and says once that it waits; the first look must succeed. */
function patiently<T>(look: () => Promise<T[]>, { tell }: Terminal): () => Promise<T[]> {
  let waiting: boolean | undefined;
  return async () => {
    try {
      const found = await look();
      if (waiting) tell('It answers again.');
      waiting = false;
      return found;
    } catch (error) {
      if (waiting === undefined || !(error instanceof PassingFailure)) throw error;
      if (!waiting) tell(`${error.message.split('\n')[0]} Waiting for it …`);
      waiting = true;
      return [];
    }
  };
}

async function tail({ api, terminal, json }: Call, options: Options): Promise<void> {
  const interrupted = terminal.interruption();
  const filter = toQuery(options);
  const deliveries = follow({
    list: (query) => dataOf(api.GET('/v1/deliveries', { params: { query: { ...filter, ...query } } })),
    get: (id) => dataOf(api.GET('/v1/deliveries/{id}', { params: { path: { id } } })),
    now: terminal.now,
    past: options.lines,
  });
  const changes = patiently(() => deliveries.changes(), terminal);
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
    .option('--lines <n>', 'how many of the past to begin with', count, 10)
    .addOption(new Option('--interval <duration>', 'how often to look').argParser(readInterval).default(2_000, '2s'))
    .addHelpText('after', examples('deliveries tail', 'deliveries tail --webhook wh_01kaj3m5x2f7q9w4n8r1t6b0zc --json'))
    .action(calling(terminal, tail));
}
