import type { components } from '../api.d.ts';
import type { ApiRequest, OperationTable } from '../http/operation.ts';
import type { Catalogue } from './catalogue/catalogue.ts';
import type { EventHistory, EventState, PastEvent } from './history.ts';
import type { EventService } from './service.ts';

type Schemas = components['schemas'];

export interface EventRoutesDeps {
  readonly publish: EventService['publish'];
  readonly history: EventHistory;
  readonly catalogue: Pick<Catalogue, 'list'>;
}

function toBody({ data, ...event }: PastEvent): Schemas['PastEvent'] {
  return { ...event, data: data as Schemas['EventData'] };
}

/** The operations on events: published for any account, looked up in one's own. */
export function eventOperations({ publish, history, catalogue }: EventRoutesDeps): OperationTable {
  return {
    publishEvent: {
      databaseWait: null,
      async handle({ body, headers }: ApiRequest<Schemas['EventPublish']>) {
        const { type, user_id, data } = body;
        const key = headers['idempotency-key'];
        const event = { type, userId: user_id, data };
        const { idempotencyKey, ...published } = await publish(
          event,
          key === undefined ? {} : { idempotencyKey: String(key) },
        );
        const answer = { ...published, data, user_id, idempotency_key: idempotencyKey };
        return { status: 201, body: answer satisfies Schemas['PublishedEvent'] };
      },
    },
    listEvents: {
      async handle({ principal, query: { type, state, limit, after } }) {
        const { events, hasMore, nextAfter } = await history.list(principal.userId, {
          ...(type !== undefined && { type: String(type) }),
          ...(state !== undefined && { state: state as EventState }),
          ...(limit !== undefined && { limit: Number(limit) }),
          ...(after !== undefined && { after: String(after) }),
        });
        const body = { data: events.map(toBody), has_more: hasMore, ...(nextAfter && { next_after: nextAfter }) };
        return { status: 200, body: body satisfies Schemas['EventList'] };
      },
    },
    retrieveEvent: {
      async handle({ principal, params: { id = '' } }) {
        return { status: 200, body: toBody(await history.get(principal.userId, id)) };
      },
    },
    listEventTypes: {
      databaseWait: null,
      async handle() {
        return { status: 200, body: { data: catalogue.list() as Schemas['EventTypeDescription'][] } };
      },
    },
  };
}
