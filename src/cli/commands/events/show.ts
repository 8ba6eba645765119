import { Command } from 'commander';
import { dataOf, type Schemas } from '../../client/api.ts';
import { apiAction, examples } from '../../client/api-command.ts';
import { momentOf } from '../../terminal/moments.ts';
import type { Paint } from '../../terminal/paint.ts';
import { fieldLines } from '../../terminal/table.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import { countsOf, eventStateCell } from './view.ts';

function lines(event: Schemas['PastEvent'], paint: Paint, now: number): string[] {
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

/** `events show` */
export function showEventCommand(terminal: Terminal): Command {
  return new Command('show')
    .description('one event, as it was sent, and what became of it')
    .argument('<event>', 'its id, evt_…')
    .addHelpText('after', examples('events show evt_01kaj3m5x5a1b2c3d4e5f6g7h8'))
    .action(
      apiAction(terminal, async ({ api, show }, id: string) => {
        show(await dataOf(api.GET('/v1/events/{id}', { params: { path: { id } } })), lines);
      }),
    );
}
