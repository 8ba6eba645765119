import { Command } from 'commander';
import { dataOf } from '../../client/api.ts';
import { apiAction, examples } from '../../client/api-command.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { showOutcome } from './outcome.ts';

/** `deliveries resend` */
export function resendCommand(terminal: Terminal): Command {
  return new Command('resend')
    .description('make one more attempt now, whatever state the delivery is in, and show what came of it')
    .argument('<delivery>', 'its id, dlv_…')
    .addHelpText('after', examples('deliveries resend dlv_01kaj3m5x8p4q2r6s0t3v7w1xy'))
    .action(
      apiAction(terminal, async (context, id: string) => {
        await showOutcome(
          context,
          await dataOf(context.api.POST('/v1/deliveries/{id}/resend', { params: { path: { id } } })),
        );
      }),
    );
}
