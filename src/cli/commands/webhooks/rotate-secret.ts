import { Command, InvalidArgumentError, Option } from 'commander';
import { dataOf, type Schemas } from '../../client/api.ts';
import { apiAction, examples } from '../../client/api-command.ts';
import { parseDuration } from '../../config/duration.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { secretField, secretHelp, showWithSecret } from './secret.ts';

interface Options {
  readonly secret?: string;
  /** Seconds. */
  readonly overlap?: number;
  readonly serviceSignature?: Schemas['ServiceSignatureSecret'];
}

function seconds(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined) throw new InvalidArgumentError('It must be a duration such as 0, 30m, 24h or 7d.');
  return Math.round(ms / 1_000);
}

/** `webhooks rotate-secret` */
export function rotateSecretCommand(terminal: Terminal): Command {
  return new Command('rotate-secret')
    .description('replace the secret, both being good for a while')
    .argument('<webhook>', 'its id, wh_…')
    .option('--secret <secret>', `the new one: ${secretHelp}`)
    .option('--overlap <duration>', 'how long the old one stays good, up to 7d; a day when it is left out', seconds)
    .addOption(
      new Option('--service-signature <which>', 'which secret makes x-service-signature meanwhile').choices([
        'new',
        'previous',
      ]),
    )
    .addHelpText(
      'after',
      examples(
        'webhooks rotate-secret wh_01kaj3m5x2f7q9w4n8r1t6b0zc --overlap 2d',
        'webhooks rotate-secret wh_01kaj3m5x2f7q9w4n8r1t6b0zc --overlap 0    # the old one has leaked',
      ),
    )
    .action(
      apiAction(terminal, async (context, id: string, { secret, overlap, serviceSignature }: Options) => {
        const body = {
          ...(await secretField(context, secret)),
          ...(overlap !== undefined && { overlap_seconds: overlap }),
          ...(serviceSignature && { service_signature: serviceSignature }),
        };
        const rotate = context.api.POST('/v1/webhooks/{id}/rotate_secret', { params: { path: { id } }, body });
        showWithSecret(context, await dataOf(rotate));
      }),
    );
}
