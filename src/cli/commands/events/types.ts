import { Command } from 'commander';
import { dataOf, type Schemas } from '../../client/api.ts';
import { apiAction, examples } from '../../client/api-command.ts';
import { CommandFailure } from '../../terminal/command-failure.ts';
import type { Paint } from '../../terminal/paint.ts';
import { type Column, fieldLines, tableLines } from '../../terminal/table.ts';
import type { Terminal } from '../../terminal/terminal.ts';

type Description = Schemas['EventTypeDescription'];

/** Each description begins by saying that all of this is in beta. */
function plainText({ description }: Description): string {
  return description
    .replace(/^Beta\. /, '')
    .replaceAll('`', '')
    .replace(/\s+/g, ' ');
}

const columns: readonly Column<Description>[] = [
  { header: 'TYPE', cell: ({ type }) => type },
  { header: 'SENT WHEN', cell: plainText },
];

function oneLines(description: Description, paint: Paint): string[] {
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

function find(types: readonly Description[], name: string): Description {
  const description = types.find(({ type }) => type === name);
  if (description) return description;
  const typeNames = types.map(({ type }) => type).join(', ');
  throw new CommandFailure(`There is no type ${name}; there are ${typeNames}.`);
}

/** `events types` */
export function eventTypesCommand(terminal: Terminal): Command {
  return new Command('types')
    .description('every type of event, or one with the schema of its data and an example')
    .argument('[type]', 'one of them')
    .addHelpText(
      'after',
      examples('events types', 'events types credits.low', 'events types credits.low --json | jq .example'),
    )
    .action(
      apiAction(terminal, async ({ api, show }, type?: string) => {
        const types = await dataOf(api.GET('/v1/event_types'));
        if (type === undefined) return show(types, ({ data }, paint) => tableLines(columns, data, paint));
        show(find(types.data, type), oneLines);
      }),
    );
}
