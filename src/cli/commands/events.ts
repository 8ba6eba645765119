import { type Command, Option } from 'commander';
import { dataFrom, type Schemas } from '../client/api.ts';
import { ApiCommand, databaseOption, subject } from '../client/api-command.ts';
import { readJsonObject } from '../client/flags.ts';
import { publishStored } from '../database/stored.ts';
import { CommandFailure } from '../terminal/command-failure.ts';
import { type Cell, type Column, detailLines, listLines, tableLines } from '../terminal/table.ts';
import type { Style, Terminal } from '../terminal/terminal.ts';
import { localTime, momentOf, relative, typeText } from '../terminal/text.ts';

export function eventsCommand(terminal: Terminal): Command {
  return subject('events', 'list and publish events', [
    new ApiCommand(terminal, 'list', 'your events, newest first')
      .option('--type <type>', 'only of this type')
      .addOption(new Option('--state <state>', 'only in this state').choices(Object.keys(eventStyles)))
      .examples('events list --state failed --limit 50', 'events list --json')
      .lists<{ type?: Schemas['EventType']; state?: Schemas['EventState'] }, Event>(
        ['--after <event>', 'those before this one in time, evt_…'],
        ({ api }, page, { type, state }) => {
          const query = { ...page, ...(type && { type }), ...(state && { state }) };
          return api.GET('/v1/events', { params: { query } });
        },
        listLines(eventColumns, 'No events.'),
      ),
    new ApiCommand(terminal, 'show', 'one event, as it was sent, and what became of it')
      .argument('<event>', 'its id, evt_…')
      .examples('events show evt_01kaj3m5x5a1b2c3d4e5f6g7h8')
      .shows(({ api }, id: string) => api.GET('/v1/events/{id}', { params: { path: { id } } }), eventLines),
    publishOf(terminal)
      .addOption(databaseOption())
      .showsEither(
        (env, { event, idempotencyKey }: PublishOptions) => publishStored(env, event, idempotencyKey),
        ({ api }, { event, idempotencyKey }) => {
          const header = idempotencyKey === undefined ? {} : { 'Idempotency-Key': idempotencyKey };
          return api.POST('/v1/events', { params: { header }, body: event });
        },
        ({ id }) => [id],
      ),
    new ApiCommand(terminal, 'types', 'every type of event, or one with the schema of its data and an example')
      .argument('[type]', 'one of them')
      .examples('events types', 'events types credits.low', 'events types credits.low --json | jq .example')
      .runs(async ({ api, show }, type?: string) => {
        const types = await dataFrom(api.GET('/v1/event_types'));
        if (type === undefined) return show(types, ({ data }, paint, now) => tableLines(typeColumns, data, paint, now));
        const description = types.data.find((known) => known.type === type);
        if (description) return show(description, typeLines);
        throw new CommandFailure(
          `There is no type ${type}; there are ${types.data.map(({ type }) => type).join(', ')}.`,
        );
      }),
  ]);
}

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

const eventColumns: readonly Column<Event>[] = [
  { header: 'ID', cell: ({ id }) => id },
  { header: 'CREATED', cell: ({ created }) => localTime(created) },
  { header: 'AGE', cell: ({ created }, now) => relative(created, now) },
  { header: 'STATE', cell: eventStateCell },
  { header: 'TYPE', cell: typeText },
];

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
  return counts.map(([state, count]) => `${count} ${state}`).join(', ') || 'none: no webhook hears of it';
}

interface PublishOptions {
  /** Read from the other options before anything else is done. */
  readonly event: Schemas['EventPublish'];
  readonly idempotencyKey?: string;
}

/** `publish`, as `events publish --database` was called before there was an API for it. */
export function publishStoredCommand(terminal: Terminal): Command {
  return publishOf(terminal).action(async ({ event, idempotencyKey }: PublishOptions) => {
    terminal.print((await publishStored(terminal.env, event, idempotencyKey)).id);
  });
}

function publishOf(terminal: Terminal): ApiCommand {
  const description =
    "publish an event to an account's webhooks; needs a key with the scope events:publish, or --database";
  return new ApiCommand(terminal, 'publish', description)
    .requiredOption('--type <type>', 'its type (events types lists them)')
    .requiredOption('--user <account>', 'whose webhooks hear of it, such as usr_1')
    .requiredOption('--data <json>', 'its data: a JSON object, @<file>, or - for stdin')
    .option('--idempotency-key <key>', 'publish at most once under this key; the same key gives the same event')
    .examples(
      `events publish --user usr_1 --type credits.low --data '{"user_id":"usr_1","credits_remaining":50,"threshold":100}'`,
      'events publish --user usr_1 --type payment.completed --data @payment.json --idempotency-key pay_1',
      'events publish --database --user usr_1 --type payment.completed --data - <payment.json',
    )
    .hook('preAction', async (command) => {
      const { type, user, data } = command.opts<{ type: string; user: string; data: string }>();
      const event = { type, user_id: user, data: await readJsonObject('--data', data, terminal) };
      command.setOptionValue('event', event);
    });
}

type Description = Schemas['EventTypeDescription'];

const typeColumns: readonly Column<Description>[] = [
  { header: 'TYPE', cell: ({ type }) => type },
  { header: 'SENT WHEN', cell: plainText },
];

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
