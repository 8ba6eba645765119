import { Command } from 'commander';
import { dataOf, type Schemas } from '../../client/api.ts';
import { apiAction, examples } from '../../client/api-command.ts';
import { several } from '../../client/flags.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { type FieldOptions, fieldsOf, withFieldOptions } from './optional-fields.ts';
import { secretField, secretHelp, showWithSecret } from './secret.ts';

interface Options extends FieldOptions {
  readonly event: Schemas['EventType'][];
  readonly secret?: string;
}

/** `webhooks create` */
export function createWebhookCommand(terminal: Terminal): Command {
  const command = new Command('create')
    .description('register a URL for some types of event')
    .argument('<url>', 'where deliveries are sent')
    .requiredOption('--event <type>', 'what it hears of (events types lists them); may be repeated', several)
    .option('--secret <secret>', `what signs its deliveries: ${secretHelp}`);
  return withFieldOptions(command)
    .addHelpText(
      'after',
      examples(
        'webhooks create https://example.com/hooks --event payment.completed --event payment.failed',
        'webhooks create https://example.com/hooks --event payment.completed --filter data.currency=usd,eur',
        'webhooks create http://127.0.0.1:9000 --event credits.low --secret a-long-enough-secret',
      ),
    )
    .action(
      apiAction(terminal, async (context, url: string, { event: events, secret, ...options }: Options) => {
        const body = { url, events, ...fieldsOf(options), ...(await secretField(context, secret)) };
        showWithSecret(context, await dataOf(context.api.POST('/v1/webhooks', { body })));
      }),
    );
}
