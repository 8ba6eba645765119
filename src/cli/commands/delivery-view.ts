import { setTimeout as sleep } from 'node:timers/promises';
import { dataFrom, type Schemas } from '../client/api.ts';
import type { CommandContext } from '../client/api-command.ts';
import { CommandFailure } from '../terminal/command-failure.ts';
import { type Cell, type Column, detailLines, fieldLines, tableLines } from '../terminal/table.ts';
import type { Paint } from '../terminal/terminal.ts';
import { localTime, momentOf, relative, spanOf, typeText } from '../terminal/text.ts';

type Summary = Schemas['DeliverySummary'];
type Details = Schemas['DeliveryDetails'];
type Attempt = Schemas['DeliveryAttempt'];

export const deliveryColumns: readonly Column<Summary>[] = [
  { header: 'ID', cell: ({ id }) => id },
  { header: 'AGE', cell: ({ created_at: at }, now) => spanOf(now - Date.parse(at)), align: 'right' },
  { header: 'STATE', cell: deliveryStateCell },
  { header: 'ATTEMPTS', cell: attemptsOf },
  { header: 'LAST', cell: lastOf },
  { header: 'NEXT', cell: ({ next_attempt_at: at }, now) => (at ? relative(at, now) : '') },
  { header: 'TYPE', cell: typeText },
  { header: 'WEBHOOK', cell: ({ webhook_id: id }) => id },
];

function succeeded({ code }: Attempt): boolean {
  return code === null;
}

/** A delivery's state, with whether it is being sent, or why it was canceled. */
export function deliveryStateCell({ state, in_flight: inFlight, reason }: Summary): Cell {
  if (state === 'delivered') return { text: state, style: 'green' };
  if (state === 'failed') return { text: state, style: 'red' };
  if (state === 'canceled') return { text: reason ? `${state} (${reason})` : state, style: 'dim' };
  return inFlight ? { text: 'sending', style: 'cyan' } : { text: state, style: 'yellow' };
}

export function attemptsOf({ attempts_made: attempts, max_attempts: max }: Summary): string {
  return `${attempts}/${max}`;
}

/** What the last attempt ended with: a status, or the code of a failure. */
export function lastOf({ last_code: code, last_status: status }: Summary): string {
  return code ?? (status === null ? '' : String(status));
}

/** One delivery as a person reads it: what it is, every attempt and what is still to come, what was sent and answered. */
export function deliveryLines(delivery: Details, paint: Paint, now: number): string[] {
  const { attempts } = delivery;
  const hasAsked = attempts.some(({ retry_after: wait }) => wait);
  return [
    ...summaryLines(delivery, paint, now),
    '',
    ...tableLines(hasAsked ? [...attemptColumns, retryAfterColumn] : attemptColumns, attempts, paint, now),
    ...delivery.schedule.map(
      ({ number, due_at: due }) => `${String(number).padEnd(9)}${localTime(due)}  ${relative(due, now)}`,
    ),
    ...whyLines(delivery, paint),
    ...block('Sent', prettyJson(delivery.body), paint),
    ...block('Answered to the last attempt', attempts.at(-1)?.response ?? '', paint),
  ];
}

const summaryLines = detailLines((delivery: Details, now) => [
  ['Delivery', delivery.id],
  ['State', deliveryStateCell(delivery)],
  ['Event', `${delivery.event_id}  ${typeText(delivery)}`],
  ['Webhook', `${delivery.webhook_id}  ${delivery.url ?? '(deleted)'}`],
  ['Created', momentOf(delivery.created_at, now)],
  ['Ended', delivery.ended_at ? momentOf(delivery.ended_at, now) : undefined],
]);

const attemptColumns: readonly Column<Attempt>[] = [
  { header: 'ATTEMPT', cell: ({ number }) => (number === null ? 'resent' : String(number)) },
  { header: 'STARTED', cell: ({ started_at: at }) => localTime(at) },
  { header: 'TOOK', cell: ({ duration_ms: ms }) => spanOf(ms), align: 'right' },
  {
    header: 'RESULT',
    cell: (attempt) =>
      succeeded(attempt)
        ? { text: String(attempt.status), style: 'green' }
        : { text: attempt.code ?? '', style: 'red' },
  },
];

const retryAfterColumn: Column<Attempt> = { header: 'RETRY-AFTER', cell: ({ retry_after: wait }) => wait ?? '' };

/** Each way in which it failed, once, in words, and each place that it was redirected to. */
function whyLines({ attempts }: Details, paint: Paint): string[] {
  const reasons = new Map(
    attempts.flatMap(({ code, explanation }) => (code === null ? [] : [[code, explanation ?? '']])),
  );
  const locations = new Set(attempts.flatMap(({ location }) => location ?? []));
  const lines = [...reasons, ...[...locations].map((location) => ['Location', location] as const)];
  return lines.length === 0 ? [] : ['', ...fieldLines(lines, paint)];
}

/** A block of text of any origin below a title, indented so that it cannot be mistaken for the command's own words. */
function block(title: string, text: string, paint: Paint): string[] {
  return text === '' ? [] : ['', paint('dim', title), ...fieldLines([['', text]], paint)];
}

/** A body as it was sent, laid out where it is JSON. */
function prettyJson(body: string): string {
  try {
    return JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    return body;
  }
}

/**
 * Shows the outcome of the requested attempt.
 * @throws CommandFailure where it failed, or has not ended yet
 */
export async function showOutcome(context: CommandContext, delivery: Details): Promise<void> {
  const latest = await settled(context, delivery);
  context.show(latest, outcomeLines);
  if (underWay(latest)) {
    throw new CommandFailure(`It has not ended yet. Look again: express-model-gateway deliveries show ${latest.id}`);
  }
  const last = latest.attempts.at(-1);
  if (!last || !succeeded(last)) throw new CommandFailure('It was not delivered.');
}

/** Milliseconds between two reads of an attempt that took longer than the request, and for how long to read. */
const interval = 1_000;
const maxWait = 60_000;

function underWay({ in_flight: inFlight, test, state }: Details): boolean {
  return inFlight || (test && state === 'pending');
}

async function settled({ api }: CommandContext, delivery: Details): Promise<Details> {
  let latest = delivery;
  for (let waited = 0; underWay(latest) && waited < maxWait; waited += interval) {
    await sleep(interval);
    latest = await dataFrom(api.GET('/v1/deliveries/{id}', { params: { path: { id: delivery.id } } }));
  }
  return latest;
}

const outcomeLines = detailLines(({ id, attempts }: Details) => {
  const last = attempts.at(-1);
  if (!last) return [];
  const took = `in ${spanOf(last.duration_ms)}`;
  return [
    [
      'Result',
      succeeded(last)
        ? { text: `delivered: ${last.status} ${took}`, style: 'green' }
        : { text: `failed: ${last.code} ${took}`, style: 'red' },
    ],
    ['Why', last.explanation ?? undefined],
    ['Retry-After', last.retry_after ?? undefined],
    ['Location', last.location ?? undefined],
    ['Answer', last.response || undefined],
    ['Delivery', id],
  ];
});
