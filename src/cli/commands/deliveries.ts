import { setTimeout as sleep } from 'node:timers/promises';
import { type Command, Option } from 'commander';
import { dataFrom, type Schemas } from '../client/api.ts';
import { ApiCommand, type CommandContext, subject } from '../client/api-command.ts';
import { moment } from '../client/flags.ts';
import { CommandFailure } from '../terminal/command-failure.ts';
import { detailLines, listLines } from '../terminal/table.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { momentOf } from '../terminal/text.ts';
import { tailCommand } from './deliveries-tail.ts';
import {
  deliveryColumns,
  deliveryLines,
  type FilterOptions,
  showOutcome,
  toQuery,
  withFilter,
} from './delivery-view.ts';

export function deliveriesCommand(terminal: Terminal): Command {
  return subject('deliveries', 'see what became of events, and send them again', [
    withFilter(new ApiCommand(terminal, 'list', 'your deliveries, newest first'), terminal)
      .examples(
        'deliveries list --state failed --since 2h',
        "deliveries list --json | jq -r '.data[] | [.id, .state] | @tsv'",
      )
      .lists<FilterOptions, Schemas['DeliverySummary']>(
        ['--after <delivery>', 'those before this one, dlv_…'],
        ({ api }, page, filter) => api.GET('/v1/deliveries', { params: { query: { ...toQuery(filter), ...page } } }),
        listLines(deliveryColumns, 'No deliveries.'),
      ),
    new ApiCommand(
      terminal,
      'show',
      'one delivery: every attempt, what it was answered, why it failed, what comes next',
    )
      .argument('<delivery>', 'its id, dlv_…')
      .examples('deliveries show dlv_01kaj3m5x8p4q2r6s0t3v7w1xy')
      .shows(({ api }, id: string) => api.GET('/v1/deliveries/{id}', { params: { path: { id } } }), deliveryLines),
    tailCommand(terminal),
    new ApiCommand(
      terminal,
      'resend',
      'make one more attempt now, whatever state the delivery is in, and show what came of it',
    )
      .argument('<delivery>', 'its id, dlv_…')
      .examples('deliveries resend dlv_01kaj3m5x8p4q2r6s0t3v7w1xy')
      .runs(async (context, id: string) => {
        const resend = context.api.POST('/v1/deliveries/{id}/resend', { params: { path: { id } } });
        await showOutcome(context, await dataFrom(resend));
      }),
    recoverCommand(terminal),
  ]);
}

type Recovery = Schemas['Recovery'];
type State = Recovery['states'][number];

const recoveredStates: readonly State[] = ['failed', 'canceled', 'skipped'];

function recoverCommand(terminal: Terminal): Command {
  const description = 'resend what a webhook did not get: failed, canceled, or skipped while it was inactive';
  return new ApiCommand(terminal, 'recover', description)
    .argument('<webhook>', 'its id, wh_…')
    .requiredOption('--since <when>', 'from when on: a span before now such as 2h, or a time', moment(terminal.now))
    .option('--until <when>', 'until when; until now when it is left out', moment(terminal.now))
    .addOption(new Option('--state <state...>', 'only these; all when it is left out').choices(recoveredStates))
    .examples(
      'deliveries recover wh_01kaj3m5x2f7q9w4n8r1t6b0zc --since 2h',
      'deliveries recover wh_01kaj3m5x2f7q9w4n8r1t6b0zc --since 2026-01-31T08:00 --state failed skipped',
    )
    .runs(async (context, id: string, { since, until, state }: { since: string; until?: string; state?: State[] }) => {
      const body = { since, ...(until && { until }), ...(state && { states: state }) };
      const started = context.api.POST('/v1/webhooks/{id}/recover', { params: { path: { id } }, body });
      const recovery = await untilDone(context, await dataFrom(started));
      context.show(recovery, recoveryLines);
      if (recovery.failed === 0) return;
      const list = `express-model-gateway deliveries list --webhook ${id} --state failed`;
      throw new CommandFailure(`Some failed again. Which ones: ${list}`);
    });
}

/** Milliseconds between two looks. */
const recoveryInterval = 500;

async function untilDone({ api, terminal }: CommandContext, started: Recovery): Promise<Recovery> {
  const interrupted = terminal.interruption();
  const path = { id: started.webhook_id, recovery_id: started.id };
  let recovery = started;
  let shown = '';
  while (recovery.state === 'running') {
    const progress = `${progressOf(recovery)} …`;
    // without a line that moves, only what has changed is worth a new one
    if (progress !== shown) (terminal.redraw ?? terminal.printNote)(progress);
    shown = progress;
    await sleep(recoveryInterval, undefined, { signal: interrupted }).catch(() => {});
    if (interrupted.aborted) {
      terminal.redraw?.('');
      throw new CommandFailure('Stopped watching. The recovery continues.');
    }
    recovery = await dataFrom(api.GET('/v1/webhooks/{id}/recoveries/{recovery_id}', { params: { path } }));
  }
  terminal.redraw?.('');
  return recovery;
}

const recoveryLines = detailLines((recovery: Recovery, now) => [
  ['Recovery', recovery.id],
  ['From', momentOf(recovery.since, now)],
  ['To', recovery.until ? momentOf(recovery.until, now) : 'now'],
  ['States', recovery.states.join(', ')],
  ['Result', { text: progressOf(recovery), style: recovery.failed > 0 ? 'red' : 'green' }],
]);

function progressOf({ found, resent, delivered, failed }: Recovery): string {
  return `${found} found, ${resent} sent again, ${delivered} delivered, ${failed} failed`;
}
