import { type Command, Option } from 'commander';
import { parseDuration } from '../../options/kinds.ts';
import { dataFrom, type Schemas } from '../client/api.ts';
import { ApiCommand, type CommandContext, subject } from '../client/api-command.ts';
import { several, take } from '../client/flags.ts';
import { gather } from '../client/pages.ts';
import { CommandFailure, wrongUse } from '../terminal/command-failure.ts';
import { type Column, listLines } from '../terminal/table.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { printable } from '../terminal/text.ts';
import { clearable, type FieldOptions, fieldsOf, fieldsToClear, withFieldOptions } from './webhook-fields.ts';
import { statsLines, type WebhookView, webhookLines, webhookStateCell } from './webhook-view.ts';

const example = 'wh_01kaj3m5x2f7q9w4n8r1t6b0zc';

export function webhooksCommand(terminal: Terminal): Command {
  return subject('webhooks', "list, create and change your account's webhooks", [
    new ApiCommand(terminal, 'list', 'all your webhooks, oldest first')
      .examples('webhooks list', "webhooks list --json | jq -r '.data[].id'")
      .runs(async ({ api, show }) => {
        const all = await gather(Number.POSITIVE_INFINITY, (query) =>
          dataFrom(api.GET('/v1/webhooks', { params: { query } })),
        );
        show(all, listLines(columns, 'No webhooks yet. Make one: express-model-gateway webhooks create --help'));
      }),
    webhookCommand(terminal, 'show', 'one webhook, with its health').shows(
      ({ api }, id: string) => api.GET('/v1/webhooks/{id}', { params: { path: { id } } }),
      webhookLines,
    ),
    webhookCommand(terminal, 'stats', 'how deliveries to a webhook went in the last seven days').shows(
      ({ api }, id: string) => api.GET('/v1/webhooks/{id}/stats', { params: { path: { id } } }),
      statsLines,
    ),
    createCommand(terminal),
    updateCommand(terminal),
    webhookCommand(terminal, 'pause', 'deliver nothing to a webhook until it is resumed').shows(
      (context, id: string) => change(context, id, { active: false }),
      webhookLines,
    ),
    webhookCommand(terminal, 'resume', 'deliver to a webhook again; what it missed: deliveries recover').shows(
      (context, id: string) => change(context, id, { active: true }),
      webhookLines,
    ),
    rotateSecretCommand(terminal),
    webhookCommand(terminal, 'delete', 'remove a webhook; what is still to be delivered to it is canceled')
      .option('--yes', 'do not ask')
      .runs(async (context, id: string, { yes }: { yes?: true }) => {
        if (!yes) await confirm(context, id);
        const deleted = await dataFrom(context.api.DELETE('/v1/webhooks/{id}', { params: { path: { id } } }));
        context.show(deleted, (body) => [`Deleted ${body.id}`]);
      }),
  ]);
}

/** A command for one webhook, which needs nothing but its id. */
function webhookCommand(terminal: Terminal, name: string, description: string): ApiCommand {
  return new ApiCommand(terminal, name, description)
    .argument('<webhook>', 'its id, wh_…')
    .examples(`webhooks ${name} ${example}`);
}

const columns: readonly Column<Schemas['WebhookSummary']>[] = [
  { header: 'ID', cell: ({ id }) => id },
  { header: 'STATE', cell: webhookStateCell },
  { header: 'URL', cell: ({ url }) => url },
  { header: 'EVENTS', cell: ({ events }) => events.join(', ') },
];

/** What the option for a secret says, wherever there is one. */
const secretHelp =
  '8 to 256 characters, hard to guess; - reads it from stdin; one is made and shown once when it is left out';

interface CreateOptions extends FieldOptions {
  readonly event: Schemas['EventType'][];
  readonly secret?: string;
}

function createCommand(terminal: Terminal): Command {
  const command = new ApiCommand(terminal, 'create', 'register a URL for some types of event')
    .argument('<url>', 'where deliveries are sent')
    .requiredOption('--event <type>', 'what it hears of (events types lists them); may be repeated', several)
    .option('--secret <secret>', `what signs its deliveries: ${secretHelp}`);
  return withFieldOptions(command)
    .examples(
      'webhooks create https://example.com/hooks --event payment.completed --event payment.failed',
      'webhooks create https://example.com/hooks --event payment.completed --filter data.currency=usd,eur',
      'webhooks create http://127.0.0.1:9000 --event credits.low --secret a-long-enough-secret',
    )
    .runs(async (context, url: string, { event: events, secret, ...options }: CreateOptions) => {
      const body = { url, events, ...fieldsOf(options), ...(await secretField(context, secret)) };
      showWithSecret(context, await dataFrom(context.api.POST('/v1/webhooks', { body })));
    });
}

interface UpdateOptions extends FieldOptions {
  readonly event?: Schemas['EventType'][];
  readonly clear?: Readonly<Record<string, null>>;
}

function updateCommand(terminal: Terminal): Command {
  const command = new ApiCommand(terminal, 'update', 'change a webhook; what is not named stays as it is')
    .argument('<webhook>', 'its id, wh_…')
    .option('--event <type>', 'all that it hears of from now on; may be repeated', several);
  return withFieldOptions(command)
    .option('--clear <field>', `remove it: ${clearable.join(', ')}; may be repeated`, fieldsToClear)
    .examples(
      `webhooks update ${example} --event payment.completed,payment.failed`,
      `webhooks update ${example} --description 'Tells accounting of payments' --clear filters`,
    )
    .shows(
      (context, id: string, { event: events, clear, ...options }: UpdateOptions) =>
        change(context, id, { ...(events && { events }), ...fieldsOf(options), ...clear }),
      webhookLines,
    );
}

function change({ api }: CommandContext, id: string, body: Schemas['WebhookUpdate']) {
  return api.PATCH('/v1/webhooks/{id}', { params: { path: { id } }, body });
}

interface RotateOptions {
  readonly secret?: string;
  /** Milliseconds. */
  readonly overlap?: number;
  readonly serviceSignature?: Schemas['ServiceSignatureSecret'];
}

function rotateSecretCommand(terminal: Terminal): Command {
  return new ApiCommand(terminal, 'rotate-secret', 'replace the secret, both being good for a while')
    .argument('<webhook>', 'its id, wh_…')
    .option('--secret <secret>', `the new one: ${secretHelp}`)
    .option('--overlap <duration>', 'how long the old one stays good, up to 7d; a day when it is left out', readOverlap)
    .addOption(
      new Option('--service-signature <which>', 'which secret makes x-service-signature meanwhile').choices([
        'new',
        'previous',
      ]),
    )
    .examples(
      `webhooks rotate-secret ${example} --overlap 2d`,
      `webhooks rotate-secret ${example} --overlap 0    # the old one has leaked`,
    )
    .runs(async (context, id: string, { secret, overlap, serviceSignature }: RotateOptions) => {
      const body = {
        ...(await secretField(context, secret)),
        ...(overlap !== undefined && { overlap_seconds: Math.round(overlap / 1_000) }),
        ...(serviceSignature && { service_signature: serviceSignature }),
      };
      const rotate = context.api.POST('/v1/webhooks/{id}/rotate_secret', { params: { path: { id } }, body });
      showWithSecret(context, await dataFrom(rotate));
    });
}

const readOverlap = take({ allowed: 'a duration such as 0, 30m, 24h or 7d', read: parseDuration });

/** The request's field for the secret: none where the gateway creates it. */
async function secretField({ terminal }: CommandContext, option?: string): Promise<{ readonly secret?: string }> {
  if (option === undefined) return {};
  return { secret: option === '-' ? (await terminal.readInput()).trim() : option };
}

/** Shows a webhook, and its secret where the gateway has created it. */
function showWithSecret({ show, terminal }: CommandContext, webhook: WebhookView): void {
  show(webhook, webhookLines);
  if (webhook.secret !== undefined) terminal.printNote('Give the secret to the receiver; it is shown this once.');
}

async function confirm({ api, terminal }: CommandContext, id: string): Promise<void> {
  if (!terminal.ask) throw wrongUse('Deleting cannot be undone: outside a terminal, add --yes.');
  const { url } = await dataFrom(api.GET('/v1/webhooks/{id}', { params: { path: { id } } }));
  const answer = await terminal.ask(`Delete ${id}, which calls ${printable(url)}? [y/N] `);
  if (!/^y(es)?$/i.test(answer.trim())) throw new CommandFailure('Nothing was deleted.');
}
