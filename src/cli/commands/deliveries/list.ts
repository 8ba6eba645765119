import { Command } from 'commander';
import { dataOf } from '../../client/api.ts';
import { apiAction, examples } from '../../client/api-command.ts';
import { count } from '../../client/flags.ts';
import { gather, printMore } from '../../client/pages.ts';
import { tableLines } from '../../terminal/table.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { type FilterOptions, toQuery, withFilter } from './filter.ts';
import { deliveryColumns } from './view.ts';

interface Options extends FilterOptions {
  readonly limit: number;
  readonly after?: string;
}

/** `deliveries list` */
export function listDeliveriesCommand(terminal: Terminal): Command {
  return withFilter(new Command('list').description('your deliveries, newest first'), terminal)
    .option('--limit <n>', 'how many at most', count, 20)
    .option('--after <delivery>', 'those before this one, dlv_…')
    .addHelpText(
      'after',
      examples(
        'deliveries list --state failed --since 2h',
        "deliveries list --json | jq -r '.data[] | [.id, .state] | @tsv'",
      ),
    )
    .action(
      apiAction(terminal, async ({ api, show, terminal }, options: Options) => {
        const filter = toQuery(options);
        const page = await gather(
          options.limit,
          (query) => dataOf(api.GET('/v1/deliveries', { params: { query: { ...filter, ...query } } })),
          options.after,
        );
        show(page, ({ data }, paint, now) =>
          data.length > 0 ? tableLines(deliveryColumns(now), data, paint) : ['No deliveries.'],
        );
        printMore(terminal, page);
      }),
    );
}
