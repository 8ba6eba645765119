import type { Schemas } from '../../client/api.ts';
import { localTime, momentOf, relative, spanOf } from '../../terminal/moments.ts';
import type { Paint } from '../../terminal/paint.ts';
import { type Cell, type Column, fieldLines, tableLines } from '../../terminal/table.ts';

type Summary = Schemas['DeliverySummary'];
type Details = Schemas['DeliveryDetails'];
type Attempt = Schemas['DeliveryAttempt'];

/** Whether an attempt was answered with success. */
export function succeeded({ code }: Attempt): boolean {
  return code === null;
}

/** A delivery's state, with whether it is being sent, or why it was canceled. */
export function stateCell({ state, in_flight: inFlight, reason }: Summary): Cell {
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

/** The columns of a list of deliveries. */
export function deliveryColumns(now: number): readonly Column<Summary>[] {
  return [
    { header: 'ID', cell: ({ id }) => id },
    { header: 'AGE', cell: ({ created_at: at }) => spanOf(now - Date.parse(at)), align: 'right' },
    { header: 'STATE', cell: stateCell },
    { header: 'ATTEMPTS', cell: attemptsOf },
    { header: 'LAST', cell: lastOf },
    { header: 'NEXT', cell: ({ next_attempt_at: at }) => (at ? relative(at, now) : '') },
    { header: 'TYPE', cell: ({ type, test }) => (test ? `${type} (test)` : type) },
    { header: 'WEBHOOK', cell: ({ webhook_id: id }) => id },
  ];
}

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

/** The attempts; what a receiver asked for, where one did. */
function attemptLines({ attempts }: Details, paint: Paint): string[] {
  const hasAsked = attempts.some(({ retry_after: wait }) => wait);
  return tableLines(hasAsked ? [...attemptColumns, retryAfterColumn] : attemptColumns, attempts, paint);
}

function comingLines({ schedule }: Details, now: number): string[] {
  return schedule.map(
    ({ number, due_at: due }) => `${String(number).padEnd(9)}${localTime(due)}  ${relative(due, now)}`,
  );
}

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

/** One delivery as a person reads it: what it is, every attempt and what is still to come, what was sent and answered. */
export function deliveryLines(delivery: Details, paint: Paint, now: number): string[] {
  const { id, event_id, type, test, webhook_id, url, created_at, ended_at, attempts, body } = delivery;
  const last = attempts.at(-1);
  return [
    ...fieldLines(
      [
        ['Delivery', id],
        ['State', stateCell(delivery)],
        ['Event', `${event_id}  ${type}${test ? ' (test)' : ''}`],
        ['Webhook', `${webhook_id}  ${url ?? '(deleted)'}`],
        ['Created', momentOf(created_at, now)],
        ['Ended', ended_at ? momentOf(ended_at, now) : undefined],
      ],
      paint,
    ),
    '',
    ...attemptLines(delivery, paint),
    ...comingLines(delivery, now),
    ...whyLines(delivery, paint),
    ...block('Sent', prettyJson(body), paint),
    ...block('Answered to the last attempt', last?.response ?? '', paint),
  ];
}
