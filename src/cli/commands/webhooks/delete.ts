import { Command } from 'commander';
import { dataOf } from '../../client/api.ts';
import { apiAction, examples } from '../../client/api-command.ts';
import type { CommandContext } from '../../client/context.ts';
import { CommandFailure, wrongUse } from '../../terminal/command-failure.ts';
import { printable } from '../../terminal/printable.ts';
import type { Terminal } from '../../terminal/terminal.ts';

async function confirm({ api, terminal }: CommandContext, id: string): Promise<void> {
  if (!terminal.ask) throw wrongUse('Deleting cannot be undone: outside a terminal, add --yes.');
  const { url } = await dataOf(api.GET('/v1/webhooks/{id}', { params: { path: { id } } }));
  const answer = await terminal.ask(`Delete ${id}, which calls ${printable(url)}? [y/N] `);
  if (!/^y(es)?$/i.test(answer.trim())) throw new CommandFailure('Nothing was deleted.');
}

/** `webhooks delete` */
export function deleteWebhookCommand(terminal: Terminal): Command {
  return new Command('delete')
    .description('remove a webhook; what is still to be delivered to it is canceled')
    .argument('<webhook>', 'its id, wh_…')
    .option('--yes', 'do not ask')
    .addHelpText('after', examples('webhooks delete wh_01kaj3m5x2f7q9w4n8r1t6b0zc'))
    .action(
      apiAction(terminal, async (context, id: string, { yes }: { yes?: true }) => {
        if (!yes) await confirm(context, id);
        const deleted = await dataOf(context.api.DELETE('/v1/webhooks/{id}', { params: { path: { id } } }));
        context.show(deleted, (body) => [`Deleted ${body.id}`]);
      }),
    );
}
