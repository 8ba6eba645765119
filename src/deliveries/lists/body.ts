import type { components } from '../../api.d.ts';
import { adviceFor } from '../attempt/failures.ts';
import { delayAfter } from '../attempt/retry-delay.ts';
import type { AttemptRecord } from '../model.ts';
import { shownHeaders } from '../send/headers.ts';
import type { ListedDelivery, ShownDelivery } from './delivery-page.ts';

type Schemas = components['schemas'];

const byStart = (a: Pick<AttemptRecord, 'startedAt'>, b: Pick<AttemptRecord, 'startedAt'>) =>
  a.startedAt.getTime() - b.startedAt.getTime();

/** A delivery in the API's lists. */
export function toSummaryBody(delivery: ListedDelivery): Schemas['DeliverySummary'] {
  const { _id, eventId, webhookId, type, test, state, reason, maxAttempts, dueAt, createdAt, endedAt } = delivery;
  const last = [...delivery.attempts].sort(byStart).at(-1);
  return {
    id: _id,
    event_id: eventId,
    webhook_id: webhookId,
    type,
    test,
    state,
    reason: reason ?? null,
    attempts_made: delivery.attempts.filter(({ manual }) => !manual).length,
    max_attempts: maxAttempts,
    next_attempt_at: state === 'pending' ? dueAt.toISOString() : null,
    in_flight: delivery.inFlight,
    last_status: last?.status ?? null,
    last_code: last?.code ?? null,
    created_at: createdAt.toISOString(),
    ended_at: state === 'pending' ? null : (endedAt?.toISOString() ?? null),
  };
}

/** What a failure means, and what to do about it. */
export function explain(code: string): string {
  const { meaning, remedy } = adviceFor(code);
  return `${meaning} ${remedy}`;
}

function toAttemptBody(
  attempt: AttemptRecord,
  { eventId, test }: ShownDelivery,
  userAgent: string,
): Schemas['DeliveryAttempt'] {
  const { number, startedAt, durationMs, status, code, retryAfter, location, response } = attempt;
  return {
    number: number ?? null,
    manual: attempt.manual === true,
    started_at: startedAt.toISOString(),
    duration_ms: durationMs,
    status: status ?? null,
    code: code ?? null,
    explanation: code === undefined ? null : explain(code),
    request_headers: shownHeaders({ eventId, startedAt, test, userAgent }),
    retry_after: retryAfter ?? null,
    location: location ?? null,
    response: response ?? '',
  };
}

/** The remaining attempts and their times, if each of them fails at once. */
function scheduleOf(delivery: ShownDelivery, retryDelays: readonly number[]): Schemas['ScheduledAttempt'][] {
  if (delivery.state !== 'pending') return [];
  const attemptsMade = delivery.attempts.filter(({ manual }) => !manual).length;
  const schedule: Schemas['ScheduledAttempt'][] = [];
  let due = delivery.dueAt.getTime();
  for (let number = attemptsMade + 1; number <= delivery.maxAttempts; number += 1) {
    schedule.push({ number, due_at: new Date(due).toISOString() });
    due += delayAfter(number, retryDelays);
  }
  return schedule;
}

/** What the details of a delivery show beside the delivery itself. */
export interface DeliveryContext {
  /** The webhook's present URL; `null` if the webhook is gone. */
  readonly url: string | null;
  /** `null` if the event is gone. */
  readonly body: Buffer | null;
  readonly userAgent: string;
  readonly retryDelays: readonly number[];
}

/** The details of one delivery in the API. */
export function toDetailsBody(
  delivery: ShownDelivery,
  { url, body, userAgent, retryDelays }: DeliveryContext,
): Schemas['DeliveryDetails'] {
  return {
    ...toSummaryBody(delivery),
    url,
    body: body?.toString('utf8') ?? '',
    attempts: [...delivery.attempts].sort(byStart).map((attempt) => toAttemptBody(attempt, delivery, userAgent)),
    schedule: scheduleOf(delivery, retryDelays),
  };
}
