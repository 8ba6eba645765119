import type { Command } from 'commander';
import { dataFrom, type Schemas } from '../client/api.ts';
import { ApiCommand, type CommandContext } from '../client/api-command.ts';
import { readJsonObject } from '../client/flags.ts';
import { wrongUse } from '../terminal/command-failure.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { printable } from '../terminal/text.ts';
import { showOutcome } from './delivery-view.ts';

interface Options {
  readonly type?: string;
  readonly data?: string;
}

/**
 * The type of a test event where none is named: the first that the webhook hears of, said where it hears of more.
 * @throws CommandFailure for data of one's own, which may be meant for another type
 */
async function typeOf({ api, terminal }: CommandContext, id: string, { data }: Options): Promise<Schemas['EventType']> {
  const { events } = await dataFrom(api.GET('/v1/webhooks/{id}', { params: { path: { id } } }));
  const [first] = events as [Schemas['EventType']];
  if (events.length === 1) return first;
  const types = events.map(printable).join(', ');
  if (data !== undefined) throw wrongUse(`--data needs --type, because this webhook hears of several: ${types}`);
  terminal.printNote(`The event is of type ${printable(first)}; --type takes another: ${types}`);
  return first;
}

export function testCommand(terminal: Terminal): Command {
  return new ApiCommand(terminal, 'test', 'send a webhook a sample event, once, and show what came of it')
    .argument('<webhook>', 'its id, wh_…')
    .option('--type <type>', 'one of the types that it hears of; the first of them when it and --data are left out')
    .option('--data <json>', "its data in place of the type's example: a JSON object, @<file>, or - for stdin")
    .examples(
      'test wh_01kaj3m5x2f7q9w4n8r1t6b0zc',
      'test wh_01kaj3m5x2f7q9w4n8r1t6b0zc --type payment.completed',
      'test wh_01kaj3m5x2f7q9w4n8r1t6b0zc --type payment.completed --data @payment.json',
    )
    .runs(async (context, id: string, options: Options) => {
      const params = { path: { id } };
      const type = options.type ?? (await typeOf(context, id, options));
      const data = options.data === undefined ? undefined : await readJsonObject('--data', options.data, terminal);
      const test = context.api.POST('/v1/webhooks/{id}/test', { params, body: { type, ...(data && { data }) } });
      await showOutcome(context, await dataFrom(test));
    });
}
