import type { Command } from 'commander';
import type { Schemas } from '../client/api.ts';
import { ApiCommand } from '../client/api-command.ts';
import { type Column, listLines } from '../terminal/table.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { momentOf } from '../terminal/text.ts';

const columns: readonly Column<Schemas['SearchResult']>[] = [
  { header: 'TYPE', cell: ({ type }) => type },
  { header: 'ID', cell: ({ id }) => id },
  { header: 'ACCOUNT', cell: ({ user_id: account }) => account },
  { header: 'MADE', cell: ({ created_at: at }, now) => (at ? momentOf(at, now) : '-') },
];

/** The part of a key's text that is shown: what follows is secret, and the address of a request may be logged. */
const shownOfKey = 30;

export function findCommand(terminal: Terminal): Command {
  return new ApiCommand(terminal, 'find', 'what an id names, and whose it is; needs a key with the scope admin')
    .argument('<id>', 'of an account, API key, webhook, event, delivery, payment, request …')
    .examples('find wh_01kaj3m5x2f7q9w4n8r1t6b0zc', 'find req_01kaj3m5x2f7q9w4n8r1t6b0ze')
    .shows(
      ({ api }, given: string) => {
        const id = given.startsWith('emg_') ? given.slice(0, shownOfKey) : given;
        return api.GET('/v1/admin/search', { params: { query: { id } } });
      },
      listLines(columns, 'Nothing has that id.'),
    );
}
