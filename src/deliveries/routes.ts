import type { components } from '../api.d.ts';
import type { ApiRequest, OperationTable, Reply } from '../http/operation.ts';
import type { DatabaseBudget } from '../mongo/connection/availability.ts';
import { type DeliveryContext, toDetailsBody, toSummaryBody } from './body.ts';
import type { DeliveryHistory, DeliveryPage, ShownDelivery } from './history.ts';
import type { Resend, ResendResult } from './redeliver/resend.ts';
import type { SendTest } from './redeliver/test-event.ts';

type Schemas = components['schemas'];

export interface DeliveryRoutesDeps {
  readonly history: DeliveryHistory;
  /** What is sent, where to, and how. */
  readonly context: (delivery: ShownDelivery) => Promise<DeliveryContext>;
  /** For what waits for a receiver too. */
  readonly budget: () => DatabaseBudget;
  readonly resend: Resend;
  readonly sendTest: SendTest;
}

function toPage(query: ApiRequest['query']): DeliveryPage {
  const { webhook_id, event_id, type, state, since, until, limit, after } = query;
  return {
    ...(webhook_id !== undefined && { webhookId: String(webhook_id) }),
    ...(event_id !== undefined && { eventId: String(event_id) }),
    ...(type !== undefined && { type: String(type) }),
    ...(state !== undefined && { state: state as Schemas['DeliveryState'] }),
    ...(since !== undefined && { since: new Date(String(since)) }),
    ...(until !== undefined && { until: new Date(String(until)) }),
    ...(limit !== undefined && { limit: Number(limit) }),
    ...(after !== undefined && { after: String(after) }),
  };
}

/** The operations on an account's deliveries. */
export function deliveryOperations(deps: DeliveryRoutesDeps): OperationTable {
  async function show(delivery: ShownDelivery): Promise<Schemas['DeliveryDetails']> {
    return toDetailsBody(delivery, await deps.context(delivery));
  }

  async function answer({ delivery, ended }: ResendResult, budget: DatabaseBudget): Promise<Reply> {
    return { status: ended ? 200 : 202, body: await budget.run(() => show(delivery)) };
  }

  return {
    listDeliveries: {
      async handle({ principal, query }) {
        const { deliveries, hasMore, nextAfter } = await deps.history.list(principal.userId, toPage(query));
        const data = deliveries.map(toSummaryBody);
        const body = { data, has_more: hasMore, ...(nextAfter && { next_after: nextAfter }) };
        return { status: 200, body: body satisfies Schemas['DeliveryList'] };
      },
    },
    retrieveDelivery: {
      async handle({ principal, params: { id = '' } }) {
        return { status: 200, body: await show(await deps.history.get(principal.userId, id)) };
      },
    },
    resendDelivery: {
      databaseWait: null,
      async handle({ principal, params: { id = '' } }) {
        const budget = deps.budget();
        return answer(await deps.resend(principal.userId, id, budget), budget);
      },
    },
    testWebhook: {
      databaseWait: null,
      async handle({ principal, params: { id = '' }, body }: ApiRequest<Schemas['WebhookTest']>) {
        const budget = deps.budget();
        return answer(await deps.sendTest(principal.userId, id, body.type, budget), budget);
      },
    },
  };
}
