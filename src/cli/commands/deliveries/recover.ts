import { setTimeout as sleep } from 'node:timers/promises';
import { Command, Option } from 'commander';
import { dataOf, type Schemas } from '../../client/api.ts';
import { apiAction, examples } from '../../client/api-command.ts';
import type { CommandContext } from '../../client/context.ts';
import { moment } from '../../client/flags.ts';
import { CommandFailure } from '../../terminal/command-failure.ts';
import { momentOf } from '../../terminal/moments.ts';
import type { Paint } from '../../terminal/paint.ts';
import { fieldLines } from '../../terminal/table.ts';
import type { Terminal } from '../../terminal/terminal.ts';

type Recovery = Schemas['Recovery'];
type State = Recovery['states'][number];

interface Options {
  readonly since: string;
  readonly until?: string;
  readonly state?: readonly State[];
}

/** Milliseconds between two looks. */
const interval = 500;

function progressOf({ found, resent, delivered, failed }: Recovery): string {
  return `${found} found, ${resent} sent again, ${delivered} delivered, ${failed} failed`;
}

function lines(recovery: Recovery, paint: Paint, now: number): string[] {
  const { id, since, until, states, failed } = recovery;
  return fieldLines(
    [
      ['Recovery', id],
      ['From', momentOf(since, now)],
      ['To', until ? momentOf(until, now) : 'now'],
      ['States', states.join(', ')],
      ['Result', { text: progressOf(recovery), style: failed > 0 ? 'red' : 'green' }],
    ],
    paint,
  );
}

/** Shows how far it is: on a line that moves where there is one, else on a new line when something has changed. */
function createProgress({ redraw, printNote }: Terminal): (recovery: Recovery) => void {
  let last = '';
  return (recovery) => {
    const text = `${progressOf(recovery)} …`;
    if (text !== last) (redraw ?? printNote)(text);
    last = text;
  };
}

async function untilDone({ api, terminal }: CommandContext, started: Recovery): Promise<Recovery> {
  const interrupted = terminal.interruption();
  const progress = createProgress(terminal);
  const path = { id: started.webhook_id, recovery_id: started.id };
  let recovery = started;
  while (recovery.state === 'running') {
    progress(recovery);
    await sleep(interval, undefined, { signal: interrupted }).catch(() => {});
    if (interrupted.aborted) {
      terminal.redraw?.('');
      throw new CommandFailure('Stopped watching. The recovery continues.');
    }
    recovery = await dataOf(api.GET('/v1/webhooks/{id}/recoveries/{recovery_id}', { params: { path } }));
  }
  terminal.redraw?.('');
  return recovery;
}

async function recover(context: CommandContext, id: string, { since, until, state }: Options): Promise<void> {
  const body = { since, ...(until && { until }), ...(state && { states: [...state] }) };
  const started = await dataOf(context.api.POST('/v1/webhooks/{id}/recover', { params: { path: { id } }, body }));
  const recovery = await untilDone(context, started);
  context.show(recovery, lines);
  if (recovery.failed > 0) {
    throw new CommandFailure(
      `Some failed again. Which ones: express-model-gateway deliveries list --webhook ${id} --state failed`,
    );
  }
}

/** `deliveries recover` */
export function recoverCommand(terminal: Terminal): Command {
  return new Command('recover')
    .description('resend what a webhook did not get: failed, canceled, or skipped while it was inactive')
    .argument('<webhook>', 'its id, wh_…')
    .requiredOption('--since <when>', 'from when on: a span before now such as 2h, or a time', moment(terminal.now))
    .option('--until <when>', 'until when; until now when it is left out', moment(terminal.now))
    .addOption(
      new Option('--state <state...>', 'only these; all when it is left out').choices([
        'failed',
        'canceled',
        'skipped',
      ]),
    )
    .addHelpText(
      'after',
      examples(
        'deliveries recover wh_01kaj3m5x2f7q9w4n8r1t6b0zc --since 2h',
        'deliveries recover wh_01kaj3m5x2f7q9w4n8r1t6b0zc --since 2026-01-31T08:00 --state failed skipped',
      ),
    )
    .action(apiAction(terminal, recover));
}
