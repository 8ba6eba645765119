import type { Command } from 'commander';
import type { operations } from '../../api.d.ts';
import { type Api, dataFrom, type Schemas } from '../client/api.ts';
import { ApiCommand, subject } from '../client/api-command.ts';
import { type Column, listLines } from '../terminal/table.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { figure, relative } from '../terminal/text.ts';

type StoredObject = Schemas['StoredObject'];
type Query = NonNullable<operations['listStoredObjects']['parameters']['query']>;

const ofUser = ['--user <account>', 'of this account, with a key that has the scope admin'] as const;

/** A page of what your account keeps, or another one's. */
function storedPage(api: Api, query: Query, user: string | undefined): Promise<{ data?: Schemas['StoredObjectList'] }> {
  return user === undefined
    ? api.GET('/v1/stored_objects', { params: { query } })
    : api.GET('/v1/users/{user_id}/stored_objects', { params: { path: { user_id: user }, query } });
}

const columns: readonly Column<StoredObject>[] = [
  { header: 'ID', cell: ({ id }) => id },
  { header: 'KIND', cell: ({ kind }) => kind },
  { header: 'BYTES', cell: ({ bytes }) => (bytes === null ? '' : figure(bytes)), align: 'right' },
  { header: 'CREATED', cell: ({ created_at: at }, now) => relative(at, now) },
  { header: 'MADE BY', cell: ({ made_by: { object_id: object, endpoint } }) => object ?? endpoint ?? '' },
  { header: 'NAME', cell: ({ name }) => name ?? '' },
];

const totalColumns: readonly Column<Schemas['StoredObjectTotal']>[] = [
  { header: 'KIND', cell: ({ kind }) => kind },
  {
    header: 'COUNT',
    cell: ({ count: counted, has_more }) => `${figure(counted)}${has_more ? '+' : ''}`,
    align: 'right',
  },
  { header: 'BYTES', cell: ({ bytes }) => (bytes > 0 ? figure(bytes) : ''), align: 'right' },
];

export function storageCommand(terminal: Terminal): Command {
  return subject('storage', 'list what providers keep for your account, and add it up', [
    new ApiCommand(terminal, 'list', 'what your account keeps, newest first')
      .option('--kind <kind>', 'only this kind: file, batch, response, vector_store, …')
      .option(...ofUser)
      .examples('storage list', 'storage list --kind file', "storage list --json | jq -r '.data[].id'")
      .lists<{ kind?: NonNullable<Query['kind']>; user?: string }, StoredObject>(
        ['--after <id>', 'those before this one'],
        ({ api }, page, { kind, user }) => storedPage(api, { ...page, ...(kind !== undefined && { kind }) }, user),
        listLines(columns, 'Nothing.'),
      ),
    new ApiCommand(terminal, 'totals', 'how much of each kind your account keeps')
      .option(...ofUser)
      .examples('storage totals', 'storage totals --user usr_2')
      .runs(async ({ api, show }, { user }: { user?: string }) => {
        const { totals = [] } = await dataFrom(storedPage(api, { limit: 1 }, user));
        show({ data: totals }, listLines(totalColumns, 'Nothing.'));
      }),
  ]);
}
