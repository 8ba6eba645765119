import { Command } from 'commander';
import { dataOf, type Schemas } from '../../client/api.ts';
import { apiAction, examples } from '../../client/api-command.ts';
import { several } from '../../client/flags.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { secretField, secretHelp, showWithSecret } from './secret.ts';

interface Options {
  readonly event: Schemas['EventType'][];
  readonly secret?: string;
}

/** `webhooks create` */
export function createWebhookCommand(terminal: Terminal): Command {
  return new Command('create')
    .description('register a URL for some types of event')
    .argument('<url>', 'where deliveries are sent')
    .requiredOption('--event <type>', 'what it hears of (events types lists them); may be repeated', several)
    .option('--secret <secret>', `what signs its deliveries: ${secretHelp}`)
    .addHelpText(
      'after',
      examples(
        'webhooks create https://example.com/hooks --event payment.completed --event payment.failed',
        'webhooks create http://127.0.0.1:9000 --event credits.low --secret a-long-enough-secret',
      ),
    )
    .action(
      apiAction(terminal, async (context, url: string, { event: events, secret }: Options) => {
        const body = { url, events, ...(await secretField(context, secret)) };
        showWithSecret(context, await dataOf(context.api.POST('/v1/webhooks', { body })));
      }),
    );
}
