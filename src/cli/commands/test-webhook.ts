import { dataFrom, type Schemas } from '../client/api.ts';
import type { CommandContext } from '../client/api-command.ts';
import { readJsonObject } from '../client/flags.ts';
import { row, type Values } from '../client/operation-command.ts';
import { wrongUse } from '../terminal/command-failure.ts';
import { printable } from '../terminal/text.ts';
import { showOutcome } from './delivery-view.ts';

type Given = { readonly id: string; readonly type?: string; readonly data?: string };

/**
 * The type of a test event where none is named: the first that the webhook gets, said where it gets more.
 * @throws CommandFailure for data of one's own, which may be meant for another type
 */
async function typeOf({ id, data }: Given, { api, terminal }: CommandContext): Promise<Schemas['EventType']> {
  const { events } = await dataFrom(api.GET('/v1/webhooks/{id}', { params: { path: { id } } }));
  const [first] = events as [Schemas['EventType']];
  if (events.length === 1) return first;
  const types = events.map(printable).join(', ');
  if (data !== undefined) throw wrongUse(`--data needs --type, because this webhook gets several: ${types}`);
  terminal.printNote(`The event is of type ${printable(first)}; --type takes another: ${types}`);
  return first;
}

async function prepare(given: Given, context: CommandContext): Promise<Values> {
  const type = given.type ?? (await typeOf(given, context));
  const { id, data } = given;
  return { id, type, data: data === undefined ? data : await readJsonObject('--data', data, context.terminal) };
}

export const testRow = row('testWebhook', {
  flags: {
    type: {
      meaning: 'one of the types that it gets; the first of them when it and --data are left out',
      isOptional: true,
    },
    data: {
      flags: '--data <json>',
      meaning: "its data in place of the type's example: a JSON object, @<file>, or - for stdin",
    },
  },
  examples: [
    'test wh_01kaj3m5x2f7q9w4n8r1t6b0zc',
    'test wh_01kaj3m5x2f7q9w4n8r1t6b0zc --type payment.completed',
    'test wh_01kaj3m5x2f7q9w4n8r1t6b0zc --type payment.completed --data @payment.json',
  ],
  prepare,
  run: async (context, _values, send) => showOutcome(context, await send()),
});
