import type { components, operations } from '../api.d.ts';
import { withTimeRange } from '../http/incoming-time.ts';
import type { ApiRequest, OperationTable, ReplyOf } from '../http/operation.ts';
import type { DatabaseBudget } from '../mongo/connection/availability.ts';
import { type DeliveryContext, toDetailsBody, toSummaryBody } from './lists/body.ts';
import type { DeliveryPage, ShownDelivery } from './lists/delivery-page.ts';
import type { DeliveryHistory } from './lists/history.ts';
import type { Resend, ResendResult } from './redeliver/resend.ts';
import type { SendTest } from './redeliver/test-event.ts';

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
