import type { components, operations } from '../api.d.ts';
import { toTime, withTimeRange } from '../http/incoming-time.ts';
import type { ApiRequest, OperationTable, ReplyOf } from '../http/operation.ts';
import type { DatabaseBudget } from '../mongo/connection/availability.ts';
import {
  type DeliveryContext,
  type DeliveryHistory,
  type DeliveryPage,
  type ShownDelivery,
  toDetailsBody,
  toSummaryBody,
} from './history.ts';
import type { RecoveryDocument } from './model.ts';
import type { RecoveryService } from './recoveries.ts';
import type { Resend, ResendResult, SendTest } from './redeliver.ts';

type Schemas = components['schemas'];

export interface DeliveryRoutesDeps {
  readonly history: DeliveryHistory;
  /** What the details of a delivery show beside it. */
  readonly context: (userId: string, delivery: ShownDelivery) => Promise<DeliveryContext>;
  /** A budget for an operation that also waits for a receiver. */
  readonly budget: () => DatabaseBudget;
  readonly resend: Resend;
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

function toBody(recovery: RecoveryDocument): Schemas['Recovery'] {
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
        return { status: 202, body: toBody(recovery) };
      },
    },
    listRecoveries: {
      async handle({ principal, params: { id }, query }) {
        const { recoveries, hasMore } = await service.list(principal.userId, id, query);
        return { status: 200, body: { data: recoveries.map(toBody), has_more: hasMore } };
      },
    },
    retrieveRecovery: {
      async handle({ principal, params: { id, recovery_id } }) {
        return { status: 200, body: toBody(await service.get(principal.userId, id, recovery_id)) };
      },
    },
  } satisfies Partial<OperationTable>;
}
