import type { components, operations } from '../api.d.ts';
import { toTime, withTimeRange } from '../http/incoming-time.ts';
import type { ApiRequest, OperationTable, ReplyOf } from '../http/operation.ts';
import type { DatabaseBudget } from '../mongo/connection/availability.ts';
import { adviceFor } from './failures.ts';
import type { Delivery, DeliveryPage, ShownDelivery } from './history.ts';
import type { AttemptRecord, RecoveryDocument } from './model.ts';
import type { RecoveryService } from './recoveries.ts';
import type { ResendResult, SendTest } from './redeliver.ts';
import { delayAfter } from './retry.ts';
import type { DeliveryService } from './service.ts';
import { shownHeaders } from './signature.ts';

type Schemas = components['schemas'];

const byStart = (a: Pick<AttemptRecord, 'startedAt'>, b: Pick<AttemptRecord, 'startedAt'>) =>
  a.startedAt.getTime() - b.startedAt.getTime();

/** The attempts on schedule. */
function attemptsMade({ attempts }: Delivery): number {
  return attempts.filter(({ manual }) => !manual).length;
}

/** A delivery in the API's lists. */
function toSummaryBody(delivery: Delivery): Schemas['DeliverySummary'] {
  const { id, eventId, webhookId, type, test, state, reason, maxAttempts, dueAt, createdAt, endedAt } = delivery;
  const last = [...delivery.attempts].sort(byStart).at(-1);
  return {
    id,
    event_id: eventId,
    webhook_id: webhookId,
    type,
    test,
    state,
    reason: reason ?? null,
    attempts_made: attemptsMade(delivery),
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
  const schedule: Schemas['ScheduledAttempt'][] = [];
  let due = delivery.dueAt.getTime();
  for (let number = attemptsMade(delivery) + 1; number <= delivery.maxAttempts; number += 1) {
    schedule.push({ number, due_at: new Date(due).toISOString() });
    due += delayAfter(number, retryDelays);
  }
  return schedule;
}

/** The details of one delivery in the API. */
function toDetailsBody(
  delivery: ShownDelivery,
  { url, body, userAgent, retryDelays }: Awaited<ReturnType<DeliveryService['context']>>,
): Schemas['DeliveryDetails'] {
  return {
    ...toSummaryBody(delivery),
    url,
    body: body?.toString('utf8') ?? '',
    attempts: [...delivery.attempts].sort(byStart).map((attempt) => toAttemptBody(attempt, delivery, userAgent)),
    schedule: scheduleOf(delivery, retryDelays),
  };
}

export interface DeliveryRoutesDeps extends Pick<DeliveryService, 'history' | 'context' | 'resend'> {
  /** A budget for an operation that also waits for a receiver. */
  readonly budget: () => DatabaseBudget;
  readonly sendTest: SendTest;
}

function toPage(query: ApiRequest<operations['listDeliveries']>['query']): DeliveryPage {
  const { webhook_id, event_id, ...same } = withTimeRange(query);
  return {
    ...same,
    ...(webhook_id !== undefined && { webhookId: webhook_id }),
    ...(event_id !== undefined && { eventId: event_id }),
  };
}

/** The operations on an account's deliveries. */
export function deliveryOperations(deps: DeliveryRoutesDeps) {
  async function show(userId: string, delivery: ShownDelivery): Promise<Schemas['DeliveryDetails']> {
    return toDetailsBody(delivery, await deps.context(userId, delivery));
  }

  async function answer(
    userId: string,
    { delivery, ended }: ResendResult,
    budget: DatabaseBudget,
  ): Promise<ReplyOf<operations['resendDelivery']>> {
    return { status: ended ? 200 : 202, body: await budget.run(() => show(userId, delivery)) };
  }

  return {
    listDeliveries: {
      async handle({ principal, query }) {
        const { deliveries, hasMore, nextAfter } = await deps.history.list(principal.userId, toPage(query));
        const data = deliveries.map(toSummaryBody);
        const body = { data, has_more: hasMore, ...(nextAfter && { next_after: nextAfter }) };
        return { status: 200, body };
      },
    },
    retrieveDelivery: {
      async handle({ principal, params: { id } }) {
        return { status: 200, body: await show(principal.userId, await deps.history.get(principal.userId, id)) };
      },
    },
    resendDelivery: {
      databaseWait: null,
      async handle({ principal, params: { id } }) {
        const budget = deps.budget();
        return answer(principal.userId, await deps.resend(principal.userId, id, budget), budget);
      },
    },
    testWebhook: {
      databaseWait: null,
      async handle({ principal, params: { id }, body }) {
        const budget = deps.budget();
        return answer(principal.userId, await deps.sendTest(principal.userId, id, body, budget), budget);
      },
    },
  } satisfies Partial<OperationTable>;
}

/** A recovery in the API. */
function toRecoveryBody(recovery: RecoveryDocument): Schemas['Recovery'] {
  const { _id, webhookId, state, since, until, states, found, resent, delivered, failed } = recovery;
  return {
    id: _id,
    webhook_id: webhookId,
    state,
    since: since.toISOString(),
    until: until.toISOString(),
    states,
    found,
    resent,
    delivered,
    failed,
    started_at: recovery.startedAt.toISOString(),
    ended_at: recovery.endedAt?.toISOString() ?? null,
  };
}

/** The operations on recoveries of an account's webhooks. */
export function recoveryOperations(service: RecoveryService) {
  return {
    recoverWebhook: {
      async handle({ principal, params: { id }, body }) {
        const { since, until, states } = body;
        const recovery = await service.recover(principal.userId, id, {
          since: toTime(since, 'since'),
          ...(until !== undefined && { until: toTime(until, 'until') }),
          ...(states !== undefined && { states }),
        });
        return { status: 202, body: toRecoveryBody(recovery) };
      },
    },
    listRecoveries: {
      async handle({ principal, params: { id }, query }) {
        const { recoveries, hasMore } = await service.list(principal.userId, id, query);
        return { status: 200, body: { data: recoveries.map(toRecoveryBody), has_more: hasMore } };
      },
    },
    retrieveRecovery: {
      async handle({ principal, params: { id, recovery_id } }) {
        return { status: 200, body: toRecoveryBody(await service.get(principal.userId, id, recovery_id)) };
      },
    },
  } satisfies Partial<OperationTable>;
}
