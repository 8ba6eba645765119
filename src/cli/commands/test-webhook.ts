import { Command } from 'commander';
import { dataOf, type Schemas } from '../client/api.ts';
import { calling, examples } from '../client/api-command.ts';
import type { Call } from '../client/call.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { showOutcome } from './deliveries/outcome.ts';

async function firstType({ api }: Call, id: string): Promise<Schemas['EventType']> {
  const { events } = await dataOf(api.GET('/v1/webhooks/{id}', { params: { path: { id } } }));
  return events[0] as Schemas['EventType'];
}

/** `test`: what a webhook does with a sample event. */
export function testCommand(terminal: Terminal): Command {
  return new Command('test')
    .description('send a webhook a sample event, once, and show what came of it')
    .argument('<webhook>', 'its id, wh_…')
    .option('--type <type>', 'one of the types that it hears of; the first of them when it is left out')
    .addHelpText(
      'after',
      examples('test wh_01kaj3m5x2f7q9w4n8r1t6b0zc', 'test wh_01kaj3m5x2f7q9w4n8r1t6b0zc --type payment.completed'),
    )
    .action(
      calling(terminal, async (call, id: string, { type: given }: Partial<Schemas['WebhookTest']>) => {
        const params = { path: { id } };
        const type = given ?? (await firstType(call, id));
        const test = call.api.POST('/v1/webhooks/{id}/test', { params, body: { type } });
        await showOutcome(call, await dataOf(test));
      }),
    );
}
