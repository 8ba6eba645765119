import { Command } from 'commander';
import { dataOf } from '../../client/api.ts';
import { apiAction, examples } from '../../client/api-command.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { webhookLines } from './view.ts';

/** `webhooks show` */
export function showWebhookCommand(terminal: Terminal): Command {
  return new Command('show')
    .description('one webhook, with its health')
    .argument('<webhook>', 'its id, wh_…')
    .addHelpText('after', examples('webhooks show wh_01kaj3m5x2f7q9w4n8r1t6b0zc'))
    .action(
      apiAction(terminal, async ({ api, show }, id: string) => {
        show(await dataOf(api.GET('/v1/webhooks/{id}', { params: { path: { id } } })), webhookLines);
      }),
    );
}
