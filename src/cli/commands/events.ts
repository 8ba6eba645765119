import { Command, Option } from 'commander';
import { dataFrom, type Schemas } from '../client/api.ts';
import {
  apiAction,
  apiCommands,
  createShow,
  databaseOption,
  examples,
  type GatewayOptions,
} from '../client/api-command.ts';
import { count, readJsonObject } from '../client/flags.ts';
import { gather, printMore } from '../client/pages.ts';
import { publishStored } from '../database/stored.ts';
import { CommandFailure } from '../terminal/command-failure.ts';
import { type Cell, type Column, fieldLines, tableLines } from '../terminal/table.ts';
import type { Paint, Style, Terminal } from '../terminal/terminal.ts';
import { localTime, momentOf, relative } from '../terminal/text.ts';

/** `events`: what happened in an account. */
export function eventsCommand(terminal: Terminal): Command {
  return apiCommands('events', 'list and publish events', [
    listCommand(terminal),
    showCommand(terminal),
    publishCommand(terminal),
    typesCommand(terminal),
  ]);
}

type Event = Schemas['PastEvent'];

/** Every state an event can be in, and how it looks. */
const eventStyles: Readonly<Record<Schemas['EventState'], Style>> = {
  pending: 'yellow',
  delivered: 'green',
  failed: 'red',
  canceled: 'dim',
  none: 'dim',
};

const eventStates = Object.keys(eventStyles);

function eventStateCell({ state, skipped }: Event): Cell {
  return { text: skipped > 0 ? `${state}, ${skipped} skipped` : state, style: eventStyles[state] };
}

interface ListOptions {
  readonly type?: Schemas['EventType'];
  readonly state?: Schemas['EventState'];
  readonly limit: number;
  readonly after?: string;
}

function listCommand(terminal: Terminal): Command {
  return new Command('list')
    .description('your events, newest first')
    .option('--type <type>', 'only of this type')
    .addOption(new Option('--state <state>', 'only in this state').choices(eventStates))
    .option('--limit <n>', 'how many at most', count, 20)
    .option('--after <event>', 'those before this one in time, evt_…')
    .addHelpText('after', examples('events list --state failed --limit 50', 'events list --json'))
    .action(
      apiAction(terminal, async ({ api, show, terminal }, { type, state, limit, after }: ListOptions) => {
        const page = await gather(
          limit,
          (query) =>
            dataFrom(
              api.GET('/v1/events', {
                params: { query: { ...query, ...(type && { type }), ...(state && { state }) } },
              }),
            ),
          after,
        );
        show(page, ({ data }, paint, now) =>
          data.length > 0 ? tableLines(eventColumns(now), data, paint) : ['No events.'],
        );
        printMore(terminal, page);
      }),
    );
}

function eventColumns(now: number): readonly Column<Event>[] {
  return [
    { header: 'ID', cell: ({ id }) => id },
    { header: 'CREATED', cell: ({ created }) => localTime(created) },
    { header: 'AGE', cell: ({ created }) => relative(created, now) },
    { header: 'STATE', cell: eventStateCell },
    { header: 'TYPE', cell: ({ type, test }) => (test ? `${type} (test)` : type) },
  ];
}

function showCommand(terminal: Terminal): Command {
  return new Command('show')
    .description('one event, as it was sent, and what became of it')
    .argument('<event>', 'its id, evt_…')
    .addHelpText('after', examples('events show evt_01kaj3m5x5a1b2c3d4e5f6g7h8'))
    .action(
      apiAction(terminal, async ({ api, show }, id: string) => {
        show(await dataFrom(api.GET('/v1/events/{id}', { params: { path: { id } } })), eventLines);
      }),
    );
}

function eventLines(event: Event, paint: Paint, now: number): string[] {
  const { id, type, test, created, data } = event;
  return fieldLines(
    [
      ['Event', id],
      ['Type', test ? `${type} (test)` : type],
      ['Created', momentOf(created, now)],
      ['State', eventStateCell(event)],
      ['Deliveries', countsOf(event)],
      ['Data', JSON.stringify(data, null, 2)],
    ],
    paint,
  );
}

/** How many of its deliveries are in which state: `2 delivered, 1 failed`. */
function countsOf({ deliveries, skipped }: Event): string {
  const counts = Object.entries({ ...deliveries, skipped }).filter(([, count]) => count > 0);
  return counts.map(([state, count]) => `${count} ${state}`).join(', ') || 'none: no webhook hears of it';
}

interface PublishOptions extends GatewayOptions {
  readonly type: string;
  readonly user: string;
  readonly data: string;
  readonly idempotencyKey?: string;
  readonly database?: true;
}

function publishCommand(terminal: Terminal): Command {
  return publishOf('publish')
    .addOption(databaseOption())
    .action(async (options: PublishOptions, command: Command) => {
      const event = await eventOf(options, terminal);
      const { idempotencyKey, database, json = false } = options;
      if (database) return createShow(terminal, json)(await publishStored(terminal.env, event, idempotencyKey), idLine);
      const header = idempotencyKey === undefined ? {} : { 'Idempotency-Key': idempotencyKey };
      await apiAction(terminal, async ({ api, show }) => {
        show(await dataFrom(api.POST('/v1/events', { params: { header }, body: event })), idLine);
      })(command);
    });
}

/** `publish`, as `events publish --database` was called before there was an API for it. */
export function publishStoredCommand(terminal: Terminal): Command {
  return publishOf('publish').action(async (options: PublishOptions) => {
    const event = await eventOf(options, terminal);
    terminal.print((await publishStored(terminal.env, event, options.idempotencyKey)).id);
  });
}

const publishExamples = examples(
  `events publish --user usr_1 --type credits.low --data '{"user_id":"usr_1","credits_remaining":50,"threshold":100}'`,
  'events publish --user usr_1 --type payment.completed --data @payment.json --idempotency-key pay_1',
  'events publish --database --user usr_1 --type payment.completed --data - <payment.json',
);

function publishOf(name: string): Command {
  return new Command(name)
    .description("publish an event to an account's webhooks; needs a key with the scope events:publish, or --database")
    .requiredOption('--type <type>', 'its type (events types lists them)')
    .requiredOption('--user <account>', 'whose webhooks hear of it, such as usr_1')
    .requiredOption('--data <json>', 'its data: a JSON object, @<file>, or - for stdin')
    .option('--idempotency-key <key>', 'publish at most once under this key; the same key gives the same event')
    .addHelpText('after', publishExamples);
}

async function eventOf({ type, user, data }: PublishOptions, terminal: Terminal): Promise<Schemas['EventPublish']> {
  return { type, user_id: user, data: await readJsonObject('--data', data, terminal) };
}

const idLine = ({ id }: { id: string }) => [id];

type Description = Schemas['EventTypeDescription'];

function typesCommand(terminal: Terminal): Command {
  return new Command('types')
    .description('every type of event, or one with the schema of its data and an example')
    .argument('[type]', 'one of them')
    .addHelpText(
      'after',
      examples('events types', 'events types credits.low', 'events types credits.low --json | jq .example'),
    )
    .action(
      apiAction(terminal, async ({ api, show }, type?: string) => {
        const types = await dataFrom(api.GET('/v1/event_types'));
        if (type === undefined) return show(types, ({ data }, paint) => tableLines(typeColumns, data, paint));
        show(findType(types.data, type), typeLines);
      }),
    );
}

const typeColumns: readonly Column<Description>[] = [
  { header: 'TYPE', cell: ({ type }) => type },
  { header: 'SENT WHEN', cell: plainText },
];

function typeLines(description: Description, paint: Paint): string[] {
  return fieldLines(
    [
      ['Type', description.type],
      ['Sent when', plainText(description)],
      ['Example', JSON.stringify(description.example, null, 2)],
      ['Schema', JSON.stringify(description.schema, null, 2)],
    ],
    paint,
  );
}

/** Each description begins by saying that all of this is in beta. */
function plainText({ description }: Description): string {
  return description
    .replace(/^Beta\. /, '')
    .replaceAll('`', '')
    .replace(/\s+/g, ' ');
}

function findType(types: readonly Description[], name: string): Description {
  const description = types.find(({ type }) => type === name);
  if (description) return description;
  const typeNames = types.map(({ type }) => type).join(', ');
  throw new CommandFailure(`There is no type ${name}; there are ${typeNames}.`);
}
