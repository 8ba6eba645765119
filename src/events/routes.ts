import type { components } from '../api.d.ts';
import { withTimeRange } from '../http/incoming-time.ts';
import type { OperationTable } from '../http/operation.ts';
import type { Catalogue } from './catalogue.ts';
import type { EventHistory } from './history.ts';
import type { EventService } from './service.ts';

type Schemas = components['schemas'];

export interface EventRoutesDeps {
  readonly publish: EventService['publish'];
  readonly history: EventHistory;
  readonly catalogue: Pick<Catalogue, 'list'>;
}

/** The operations on events: published for any account, looked up in one's own. */
export function eventOperations({ publish, history, catalogue }: EventRoutesDeps) {
  return {
    publishEvent: {
      databaseWait: null,
      async handle({ body, headers }) {
        const { type, user_id, data } = body;
        const key = headers['idempotency-key'];
        const event = { type, userId: user_id, data };
        const { idempotencyKey, ...published } = await publish(event, key === undefined ? {} : { idempotencyKey: key });
        const answer: Schemas['PublishedEvent'] = { user_id, idempotency_key: idempotencyKey, ...published, data };
        return { status: 201, body: answer };
      },
    },
    listEvents: {
      async handle({ principal, query }) {
        const page = withTimeRange(query);
        const { events, hasMore, nextAfter } = await history.list(principal.userId, page);
        const body = { data: events, has_more: hasMore, ...(nextAfter && { next_after: nextAfter }) };
        return { status: 200, body };
      },
    },
    retrieveEvent: {
      async handle({ principal, params: { id } }) {
        return { status: 200, body: await history.get(principal.userId, id) };
      },
    },
    listEventTypes: {
      databaseWait: null,
      async handle() {
        return { status: 200, body: { data: catalogue.list() } };
      },
    },
  } satisfies Partial<OperationTable>;
}
