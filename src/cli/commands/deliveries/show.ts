import { Command } from 'commander';
import { dataOf } from '../../client/api.ts';
import { apiAction, examples } from '../../client/api-command.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { deliveryLines } from './view.ts';

/** `deliveries show` */
export function showDeliveryCommand(terminal: Terminal): Command {
  return new Command('show')
    .description('one delivery: every attempt, what it was answered, why it failed, what comes next')
    .argument('<delivery>', 'its id, dlv_…')
    .addHelpText('after', examples('deliveries show dlv_01kaj3m5x8p4q2r6s0t3v7w1xy'))
    .action(
      apiAction(terminal, async ({ api, show }, id: string) => {
        show(await dataOf(api.GET('/v1/deliveries/{id}', { params: { path: { id } } })), deliveryLines);
      }),
    );
}
