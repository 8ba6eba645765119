import { Command } from 'commander';
import { dataFrom, type Schemas } from '../client/api.ts';
import { apiAction, examples } from '../client/api-command.ts';
import { type Column, tableLines } from '../terminal/table.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { momentOf } from '../terminal/text.ts';

function columns(now: number): readonly Column<Schemas['SearchResult']>[] {
  return [
    { header: 'TYPE', cell: ({ type }) => type },
    { header: 'ID', cell: ({ id }) => id },
    { header: 'ACCOUNT', cell: ({ user_id: account }) => account },
    { header: 'MADE', cell: ({ created_at: at }) => (at ? momentOf(at, now) : '-') },
  ];
}

/** The part of a key's text that is shown: what follows is secret, and the address of a request may be logged. */
const shownOfKey = 30;

/** `find`: what an id names. */
export function findCommand(terminal: Terminal): Command {
  return new Command('find')
    .description('what an id names, and whose it is; needs a key with the scope admin')
    .argument('<id>', 'of an account, API key, webhook, event, delivery, payment, request …')
    .addHelpText('after', examples('find wh_01kaj3m5x2f7q9w4n8r1t6b0zc', 'find req_01kaj3m5x2f7q9w4n8r1t6b0ze'))
    .action(
      apiAction(terminal, async ({ api, show }, given: string) => {
        const id = given.startsWith('emg_') ? given.slice(0, shownOfKey) : given;
        const results = await dataFrom(api.GET('/v1/admin/search', { params: { query: { id } } }));
        show(results, ({ data }, paint, now) =>
          data.length > 0 ? tableLines(columns(now), data, paint) : ['Nothing has that id.'],
        );
      }),
    );
}
