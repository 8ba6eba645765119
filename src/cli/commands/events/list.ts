import { Command, Option } from 'commander';
import { dataOf, type Schemas } from '../../client/api.ts';
import { apiAction, examples } from '../../client/api-command.ts';
import { count } from '../../client/flags.ts';
import { gather, printMore } from '../../client/pages.ts';
import { localTime, relative } from '../../terminal/moments.ts';
import { type Column, tableLines } from '../../terminal/table.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { eventStateCell, eventStates } from './view.ts';

interface Options {
  readonly type?: Schemas['EventType'];
  readonly state?: Schemas['EventState'];
  readonly limit: number;
  readonly after?: string;
}

function columns(now: number): readonly Column<Schemas['PastEvent']>[] {
  return [
    { header: 'ID', cell: ({ id }) => id },
    { header: 'CREATED', cell: ({ created }) => localTime(created) },
    { header: 'AGE', cell: ({ created }) => relative(created, now) },
    { header: 'STATE', cell: eventStateCell },
    { header: 'TYPE', cell: ({ type, test }) => (test ? `${type} (test)` : type) },
  ];
}

/** `events list` */
export function listEventsCommand(terminal: Terminal): Command {
  return new Command('list')
    .description('your events, newest first')
    .option('--type <type>', 'only of this type')
    .addOption(new Option('--state <state>', 'only in this state').choices(eventStates))
    .option('--limit <n>', 'how many at most', count, 20)
    .option('--after <event>', 'those before this one in time, evt_…')
    .addHelpText('after', examples('events list --state failed --limit 50', 'events list --json'))
    .action(
      apiAction(terminal, async ({ api, show, terminal }, { type, state, limit, after }: Options) => {
        const page = await gather(
          limit,
          (query) =>
            dataOf(
              api.GET('/v1/events', {
                params: { query: { ...query, ...(type && { type }), ...(state && { state }) } },
              }),
            ),
          after,
        );
        show(page, ({ data }, paint, now) =>
          data.length > 0 ? tableLines(columns(now), data, paint) : ['No events.'],
        );
        printMore(terminal, page);
      }),
    );
}
