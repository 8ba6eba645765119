import { parseDuration } from '../../options/kinds.ts';
import { dataFrom, type Schemas } from '../client/api.ts';
import type { CommandContext } from '../client/api-command.ts';
import { take } from '../client/flags.ts';
import { type Rows, row, type Values } from '../client/operation-command.ts';
import { CommandFailure, wrongUse } from '../terminal/command-failure.ts';
import { tableOf } from '../terminal/table.ts';
import { printable } from '../terminal/text.ts';
import { clearable, fieldFlags, fieldsToClear } from './webhook-fields.ts';
import { statsLines, type WebhookView, webhookLines, webhookStateCell } from './webhook-view.ts';

const example = 'wh_01kaj3m5x2f7q9w4n8r1t6b0zc';

/** What the option for a secret says, wherever there is one. */
const secretHelp =
  '8 to 256 characters, hard to guess; - reads it from stdin; one is made and shown once when it is left out';

/** Takes a secret from stdin, which no shell history keeps. */
async function withSecret(values: Values, { terminal }: CommandContext): Promise<Values> {
  return values.secret === '-' ? { ...values, secret: (await terminal.readInput()).toString().trim() } : values;
}

/** Shows a webhook, and its secret where the gateway has created it. */
async function showWithSecret(
  { show, terminal }: CommandContext,
  _values: Values,
  send: () => Promise<WebhookView>,
): Promise<void> {
  const webhook = await send();
  show(webhook, webhookLines);
  if (webhook.secret !== undefined) terminal.printNote('Give the secret to the receiver; it is shown this once.');
}

async function confirm(values: { id: string; yes?: true }, { api, terminal }: CommandContext): Promise<Values> {
  const { id, yes } = values;
  if (yes) return values;
  if (!terminal.ask) throw wrongUse('Deleting cannot be undone: outside a terminal, add --yes.');
  const { url } = await dataFrom(api.GET('/v1/webhooks/{id}', { params: { path: { id } } }));
  const answer = await terminal.ask(`Delete ${id}, which calls ${printable(url)}? [y/N] `);
  if (!/^y(es)?$/i.test(answer.trim())) throw new CommandFailure('Nothing was deleted.');
  return values;
}

const readOverlap = take({
  allowed: 'a duration such as 0, 30m, 24h or 7d',
  read(text) {
    const overlap = parseDuration(text);
    return overlap === undefined ? undefined : Math.round(overlap / 1_000);
  },
});

export const webhookRows: Rows = {
  list: row('listWebhooks', {
    does: 'all your webhooks, oldest first',
    isWhole: true,
    examples: ['webhooks list', "webhooks list --json | jq -r '.data[].id'"],
    lines: tableOf<Schemas['WebhookSummary']>(
      { id: 'id', state: webhookStateCell, url: 'url', events: ({ events }) => events.join(', ') },
      'No webhooks yet. Make one: express-model-gateway webhooks create --help',
    ),
  }),
  show: row('retrieveWebhook', {
    does: 'one webhook, with its health',
    lines: webhookLines,
  }),
  stats: row('retrieveWebhookStats', {
    does: 'how deliveries to a webhook went in the last seven days',
    lines: statsLines,
  }),
  create: row('createWebhook', {
    does: 'register a URL for some types of event',
    flags: {
      ...fieldFlags,
      url: { flags: '<url>', meaning: 'where deliveries are sent' },
      events: { flags: '--event <type>', meaning: 'which events it gets (events types lists them); may be repeated' },
      secret: { meaning: `what signs its deliveries: ${secretHelp}` },
    },
    examples: [
      'webhooks create https://example.com/hooks --event payment.completed --event payment.failed',
      'webhooks create https://example.com/hooks --event payment.completed --filter data.currency=usd,eur',
      'webhooks create http://127.0.0.1:9000 --event credits.low --secret a-long-enough-secret',
    ],
    prepare: withSecret,
    run: showWithSecret,
  }),
  update: row('updateWebhook', {
    does: 'change a webhook; what is not named stays as it is',
    only: ['events', ...Object.keys(fieldFlags)],
    flags: {
      ...fieldFlags,
      events: { flags: '--event <type>', meaning: 'all the events that it gets from now on; may be repeated' },
      clear: {
        flags: '--clear <field>',
        meaning: `remove it: ${clearable.join(', ')}; may be repeated`,
        read: fieldsToClear,
      },
    },
    examples: [
      `webhooks update ${example} --event payment.completed,payment.failed`,
      `webhooks update ${example} --description 'Tells accounting of payments' --clear filters`,
    ],
    prepare: ({ clear, ...values }: { clear?: Values }) => ({ ...values, ...clear }),
    lines: webhookLines,
  }),
  pause: row('updateWebhook', {
    does: 'deliver nothing to a webhook until it is resumed',
    only: [],
    fixed: { active: false },
    lines: webhookLines,
  }),
  resume: row('updateWebhook', {
    does: 'deliver to a webhook again; what it missed: deliveries recover',
    only: [],
    fixed: { active: true },
    lines: webhookLines,
  }),
  'rotate-secret': row('rotateWebhookSecret', {
    does: 'replace the secret; webhook-signature has both for a while, x-service-signature one',
    flags: {
      secret: { meaning: `the new one: ${secretHelp}` },
      overlap_seconds: {
        flags: '--overlap <duration>',
        meaning: 'how long the old one stays good, up to 7d; a day when it is left out',
        read: readOverlap,
      },
      service_signature: { flags: '--service-signature <which>' },
    },
    examples: [
      `webhooks rotate-secret ${example} --overlap 2d`,
      `webhooks rotate-secret ${example} --overlap 0    # the old one has leaked`,
    ],
    prepare: withSecret,
    run: showWithSecret,
  }),
  delete: row('deleteWebhook', {
    does: 'remove a webhook; what is still to be delivered to it is canceled',
    flags: { yes: { flags: '--yes', meaning: 'do not ask' } },
    prepare: confirm,
    lines: ({ id }) => [`Deleted ${id}`],
  }),
};
