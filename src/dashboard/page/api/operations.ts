import { adminOperations } from './admin-operations.ts';
import { answerOf, createApiClient, pageFolder, reach } from './client.ts';
import { toApiError } from './error.ts';
import { omitUndefined } from './omit-undefined.ts';
import type {
  ApiKeyCreate,
  Budget,
  DeliveryFilter,
  EventFilter,
  RecoverBody,
  SecretRotate,
  Session,
  TestRequest,
  WebhookCreate,
  WebhookUpdate,
} from './types.ts';

async function readSession(key: string | null): Promise<Session> {
  const headers = key === null ? {} : { authorization: `Bearer ${key}` };
  const response = await reach(new Request(`${pageFolder()}/session`, { headers }));
  const body = await response.json().catch(() => undefined);
  if (!response.ok) throw toApiError(response, body);
  return body;
}

/**
 * What the page asks of the API, by the names that openapi.yaml has for it. Everything rejects with an ApiError.
 * @param key without one, the host's own session says who the caller is
 */
export function createApi(key: string | null) {
  const client = createApiClient(key);
  const at = (id: string) => ({ path: { id } });
  type Signal = { signal?: AbortSignal };
  type Listing = { limit?: number; after?: string | undefined };

  return {
    session: () => readSession(key),

    listWebhooks: (query: Listing, init: Signal = {}) =>
      answerOf(client.GET('/v1/webhooks', { ...init, params: { query: omitUndefined(query) } })),
    retrieveWebhook: (id: string, init: Signal = {}) =>
      answerOf(client.GET('/v1/webhooks/{id}', { ...init, params: at(id) })),
    createWebhook: (body: WebhookCreate) => answerOf(client.POST('/v1/webhooks', { body })),
    updateWebhook: (id: string, body: WebhookUpdate) =>
      answerOf(client.PATCH('/v1/webhooks/{id}', { params: at(id), body })),
    rotateWebhookSecret: (id: string, body: SecretRotate) =>
      answerOf(client.POST('/v1/webhooks/{id}/rotate_secret', { params: at(id), body })),
    deleteWebhook: (id: string) => answerOf(client.DELETE('/v1/webhooks/{id}', { params: at(id) })),
    /** @param data the text of a JSON object, sent as it is: parsed here, its numbers could change. @default the example of the type */
    testWebhook: (id: string, type: TestRequest['type'], data?: string) =>
      answerOf(
        client.POST('/v1/webhooks/{id}/test', {
          params: at(id),
          body: { type },
          bodySerializer: () => `{"type":${JSON.stringify(type)}${data === undefined ? '' : `,"data":${data}`}}`,
        }),
      ),
    retrieveWebhookStats: (id: string, init: Signal = {}) =>
      answerOf(client.GET('/v1/webhooks/{id}/stats', { ...init, params: at(id) })),
    recoverWebhook: (id: string, body: RecoverBody) =>
      answerOf(client.POST('/v1/webhooks/{id}/recover', { params: at(id), body })),
    listRecoveries: (id: string, init: Signal = {}) =>
      answerOf(client.GET('/v1/webhooks/{id}/recoveries', { ...init, params: { ...at(id), query: { limit: 5 } } })),

    listDeliveries: (query: DeliveryFilter, init: Signal = {}) =>
      answerOf(client.GET('/v1/deliveries', { ...init, params: { query: omitUndefined(query) as object } })),
    retrieveDelivery: (id: string, init: Signal = {}) =>
      answerOf(client.GET('/v1/deliveries/{id}', { ...init, params: at(id) })),
    resendDelivery: (id: string) => answerOf(client.POST('/v1/deliveries/{id}/resend', { params: at(id) })),

    listEvents: (query: EventFilter, init: Signal = {}) =>
      answerOf(client.GET('/v1/events', { ...init, params: { query: omitUndefined(query) as object } })),
    retrieveEvent: (id: string, init: Signal = {}) =>
      answerOf(client.GET('/v1/events/{id}', { ...init, params: at(id) })),
    listEventTypes: (init: Signal = {}) => answerOf(client.GET('/v1/event_types', init)),

    listApiKeys: (query: Listing, init: Signal = {}) =>
      answerOf(client.GET('/v1/api_keys', { ...init, params: { query: omitUndefined(query) } })),
    createApiKey: (body: ApiKeyCreate) => answerOf(client.POST('/v1/api_keys', { body })),
    updateApiKey: (id: string, budgets: Budget[]) =>
      answerOf(client.PATCH('/v1/api_keys/{id}', { params: at(id), body: { budgets } })),
    deleteApiKey: (id: string) => answerOf(client.DELETE('/v1/api_keys/{id}', { params: at(id) })),
    listBudgets: (init: Signal = {}) => answerOf(client.GET('/v1/budgets', init)),
    retrieveCredits: (init: Signal = {}) => answerOf(client.GET('/v1/credits', init)),
    retrieveUsage: (query: { from: string; to: string; group_by: string }, init: Signal = {}) =>
      answerOf(client.GET('/v1/usage', { ...init, params: { query: query as object } })),

    ...adminOperations(client),
  };
}

export type Api = ReturnType<typeof createApi>;
