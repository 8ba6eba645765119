import type { Command } from 'commander';
import type { Schemas } from '../client/api.ts';
import type { CommandContext } from '../client/api-command.ts';
import { readJsonObject } from '../client/flags.ts';
import { operationCommand, type Rows, row, type Values } from '../client/operation-command.ts';
import { publishStored } from '../database/stored.ts';
import { CommandFailure } from '../terminal/command-failure.ts';
import { type Cell, detailLines, tableOf } from '../terminal/table.ts';
import type { Style, Terminal } from '../terminal/terminal.ts';
import { localTime, momentOf, relative, typeText } from '../terminal/text.ts';

type Event = Schemas['PastEvent'];

const eventStyles: Readonly<Record<Schemas['EventState'], Style>> = {
  pending: 'yellow',
  delivered: 'green',
  failed: 'red',
  canceled: 'dim',
  none: 'dim',
};

function eventStateCell({ state, skipped }: Event): Cell {
  return { text: skipped > 0 ? `${state}, ${skipped} skipped` : state, style: eventStyles[state] };
}

const eventLines = detailLines((event: Event, now) => [
  ['Event', event.id],
  ['Type', typeText(event)],
  ['Created', momentOf(event.created, now)],
  ['State', eventStateCell(event)],
  ['Deliveries', countsOf(event)],
  ['Data', JSON.stringify(event.data, null, 2)],
]);

/** How many of its deliveries are in which state: `2 delivered, 1 failed`. */
function countsOf({ deliveries, skipped }: Event): string {
  const counts = Object.entries({ ...deliveries, skipped }).filter(([, count]) => count > 0);
  return counts.map(([state, count]) => `${count} ${state}`).join(', ') || 'none: no webhook gets it';
}

type Description = Schemas['EventTypeDescription'];

const typesLines = tableOf<Description>({ type: 'type', 'sent when': plainText }, 'No types.');

const typeLines = detailLines((description: Description) => [
  ['Type', description.type],
  ['Sent when', plainText(description)],
  ['Example', JSON.stringify(description.example, null, 2)],
  ['Schema', JSON.stringify(description.schema, null, 2)],
]);

/** Each description begins by saying that all of this is in beta. */
function plainText({ description }: Description): string {
  return description
    .replace(/^Beta\. /, '')
    .replaceAll('`', '')
    .replace(/\s+/g, ' ');
}

type Published = Schemas['EventPublish'] & { readonly 'Idempotency-Key'?: string };

const publishRow = row('publishEvent', {
  does: "publish an event to an account's webhooks",
  flags: {
    type: { meaning: 'its type (events types lists them)' },
    user_id: { meaning: 'whose webhooks get it, such as usr_1' },
    data: { flags: '--data <json>', meaning: 'its data: a JSON object, @<file>, or - for stdin' },
    'Idempotency-Key': { meaning: 'publish at most once under this key; the same key gives the same event' },
  },
  examples: [
    `events publish --user usr_1 --type credits.low --data '{"user_id":"usr_1","credits_remaining":50,"threshold":100}'`,
    'events publish --user usr_1 --type payment.completed --data @payment.json --idempotency-key pay_1',
    'events publish --database --user usr_1 --type payment.completed --data - <payment.json',
  ],
  prepare: async (values: Values, { terminal }) => ({
    ...values,
    data: await readJsonObject('--data', String(values.data), terminal),
  }),
  stored: (env, { 'Idempotency-Key': key, ...event }: Published) => publishStored(env, event, key),
  lines: ({ id }) => [id],
});

/** `publish`, as `events publish --database` was called before there was an API for it. */
export function publishStoredCommand(terminal: Terminal): Command {
  const run = async (_context: CommandContext, { 'Idempotency-Key': key, ...event }: Published) =>
    terminal.print((await publishStored(terminal.env, event, key)).id);
  return operationCommand(terminal, 'publish', { ...publishRow, run });
}

export const eventRows: Rows = {
  list: row('listEvents', {
    does: 'your events, newest first',
    examples: ['events list --state failed --limit 50', 'events list --json'],
    lines: tableOf<Event>(
      {
        id: 'id',
        created: ({ created }) => localTime(created),
        age: ({ created }, now) => relative(created, now),
        state: eventStateCell,
        type: typeText,
      },
      'No events.',
    ),
  }),
  show: row('retrieveEvent', {
    does: 'one event, as it was sent, and what became of it',
    lines: eventLines,
  }),
  publish: publishRow,
  types: row('listEventTypes', {
    does: 'every type of event, or one with the schema of its data and an example',
    flags: { type: { flags: '[type]', meaning: 'one of them' } },
    examples: ['events types', 'events types credits.low', 'events types credits.low --json | jq .example'],
    async run({ show }, { type }, send) {
      const types = await send();
      if (type === undefined) return show(types, typesLines);
      const description = types.data.find((known) => known.type === type);
      if (description) return show(description, typeLines);
      throw new CommandFailure(`There is no type ${type}; there are ${types.data.map(({ type }) => type).join(', ')}.`);
    },
  }),
};
