import { Command } from 'commander';
import { dataOf, type Schemas } from '../../client/api.ts';
import { apiAction, examples } from '../../client/api-command.ts';
import type { CommandContext } from '../../client/context.ts';
import { several } from '../../client/flags.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { clearable, type FieldOptions, fieldsOf, fieldsToClear, withFieldOptions } from './optional-fields.ts';
import { webhookLines } from './view.ts';

interface Options extends FieldOptions {
  readonly event?: Schemas['EventType'][];
  readonly clear?: Readonly<Record<string, null>>;
}

const example = 'wh_01kaj3m5x2f7q9w4n8r1t6b0zc';

async function change({ api, show }: CommandContext, id: string, body: Schemas['WebhookUpdate']): Promise<void> {
  show(await dataOf(api.PATCH('/v1/webhooks/{id}', { params: { path: { id } }, body })), webhookLines);
}

/** `webhooks update` */
export function updateWebhookCommand(terminal: Terminal): Command {
  const command = new Command('update')
    .description('change a webhook; what is not named stays as it is')
    .argument('<webhook>', 'its id, wh_…')
    .option('--event <type>', 'all that it hears of from now on; may be repeated', several);
  return withFieldOptions(command)
    .option('--clear <field>', `remove it: ${clearable.join(', ')}; may be repeated`, fieldsToClear)
    .addHelpText(
      'after',
      examples(
        `webhooks update ${example} --event payment.completed,payment.failed`,
        `webhooks update ${example} --description 'Tells accounting of payments' --clear filters`,
      ),
    )
    .action(
      apiAction(terminal, (context, id: string, { event: events, clear, ...options }: Options) =>
        change(context, id, { ...(events && { events }), ...fieldsOf(options), ...clear }),
      ),
    );
}

/** `webhooks pause` */
export function pauseWebhookCommand(terminal: Terminal): Command {
  return new Command('pause')
    .description('deliver nothing to a webhook until it is resumed')
    .argument('<webhook>', 'its id, wh_…')
    .addHelpText('after', examples(`webhooks pause ${example}`))
    .action(apiAction(terminal, (context, id: string) => change(context, id, { active: false })));
}

/** `webhooks resume` */
export function resumeWebhookCommand(terminal: Terminal): Command {
  return new Command('resume')
    .description('deliver to a webhook again; what it missed: deliveries recover')
    .argument('<webhook>', 'its id, wh_…')
    .addHelpText('after', examples(`webhooks resume ${example}`))
    .action(apiAction(terminal, (context, id: string) => change(context, id, { active: true })));
}
