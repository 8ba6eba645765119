import { setTimeout as sleep } from 'node:timers/promises';
import { dataFrom, type Schemas } from '../client/api.ts';
import type { CommandContext } from '../client/api-command.ts';
import { type Rows, row } from '../client/operation-command.ts';
import { CommandFailure } from '../terminal/command-failure.ts';
import { detailLines, listLines } from '../terminal/table.ts';
import { momentOf } from '../terminal/text.ts';
import { tailRow } from './deliveries-tail.ts';
import { deliveryColumns, deliveryLines, showOutcome } from './delivery-view.ts';

const deliveryTable = listLines(deliveryColumns, 'No deliveries.');

/** How late an attempt may be where some process delivers. Milliseconds. */
const tolerated = 60_000;

/** What to do where even the newest attempt that is due has waited for long, and none is being made. */
function overdueLines({ data }: Schemas['DeliveryList'], now: number): string[] {
  const due = data.flatMap(({ next_attempt_at: at }) => (at && Date.parse(at) <= now ? [Date.parse(at)] : []));
  if (due.length === 0 || Math.max(...due) > now - tolerated || data.some(({ in_flight: isMade }) => isMade)) return [];
  return ['', 'Attempts have been due for more than a minute. If no process delivers, call gateway.start() in one.'];
}

export const deliveryRows: Rows = {
  list: row('listDeliveries', {
    does: 'your deliveries, newest first',
    examples: [
      'deliveries list --state failed --since 2h',
      "deliveries list --json | jq -r '.data[] | [.id, .state] | @tsv'",
    ],
    lines: (page, paint, now) => [...deliveryTable(page, paint, now), ...overdueLines(page, now)],
  }),
  show: row('retrieveDelivery', {
    does: 'one delivery: every attempt, what it was answered, why it failed, what comes next',
    lines: deliveryLines,
  }),
  tail: tailRow,
  resend: row('resendDelivery', {
    does: 'make one more attempt now, whatever state the delivery is in, and show what came of it',
    run: async (context, _values, send) => showOutcome(context, await send()),
  }),
  recover: row('recoverWebhook', {
    does: 'resend what a webhook did not get: failed, canceled, or skipped while it was inactive',
    flags: {
      since: { meaning: 'from when on: a span before now such as 2h, or a time' },
      until: { meaning: 'until when; until now when it is left out' },
      states: {
        flags: '--state <state...>',
        meaning: 'only these of failed, canceled and skipped; all when it is left out',
      },
    },
    examples: [
      'deliveries recover wh_01kaj3m5x2f7q9w4n8r1t6b0zc --since 2h',
      'deliveries recover wh_01kaj3m5x2f7q9w4n8r1t6b0zc --since 2026-01-31T08:00 --state failed skipped',
    ],
    async run(context, { id }, send) {
      const recovery = await untilDone(context, await send());
      context.show(recovery, recoveryLines);
      if (recovery.failed === 0) return;
      const list = `express-model-gateway deliveries list --webhook ${id} --state failed`;
      throw new CommandFailure(`Some failed again. Which ones: ${list}`);
    },
  }),
};

type Recovery = Schemas['Recovery'];
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
