import { Command } from 'commander';
import { dataOf, type Schemas } from '../../client/api.ts';
import { apiAction, examples } from '../../client/api-command.ts';
import { gather } from '../../client/pages.ts';
import { type Column, tableLines } from '../../terminal/table.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { stateCell } from './view.ts';

const columns: readonly Column<Schemas['WebhookSummary']>[] = [
  { header: 'ID', cell: ({ id }) => id },
  { header: 'STATE', cell: stateCell },
  { header: 'URL', cell: ({ url }) => url },
  { header: 'EVENTS', cell: ({ events }) => events.join(', ') },
];

/** `webhooks list` */
export function listWebhooksCommand(terminal: Terminal): Command {
  return new Command('list')
    .description('all your webhooks, oldest first')
    .addHelpText('after', examples('webhooks list', "webhooks list --json | jq -r '.data[].id'"))
    .action(
      apiAction(terminal, async ({ api, show }) => {
        const all = await gather(Number.POSITIVE_INFINITY, (query) =>
          dataOf(api.GET('/v1/webhooks', { params: { query } })),
        );
        show(all, ({ data }, paint) => {
          if (data.length > 0) return tableLines(columns, data, paint);
          return ['No webhooks yet. Make one: express-model-gateway webhooks create --help'];
        });
      }),
    );
}
