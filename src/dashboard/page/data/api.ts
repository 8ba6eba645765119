import createClient, { type Client } from 'openapi-fetch';
import type { paths } from '../../../api.d.ts';
import { ApiError, toApiError } from './error.ts';
import type {
  ApiKeyCreate,
  Budget,
  DeliveryFilter,
  EventFilter,
  RecoverBody,
  SecretRotate,
  Session,
  StoredFilter,
  StoredObjectKind,
  TestRequest,
  WebhookCreate,
  WebhookUpdate,
} from './types.ts';

type Listing = { limit?: number; after?: string | undefined };

/**
 * What the page asks of the API, by the names that openapi.yaml has for it. Everything rejects with an ApiError.
 * @param key without one, the host's own session says who the caller is
 */
export function createApiClient(key: string | null) {
  const headers = key === null ? {} : { authorization: `Bearer ${key}` };
  const client = createClient<paths>({ baseUrl: pageFolder(), fetch: reach, headers });
  const at = (id: string) => ({ path: { id } });

  return {
    session: () => readSession(headers),

    listWebhooks: (query: Listing, signal: AbortSignal) =>
      answerOf(client.GET('/v1/webhooks', { signal, params: { query: omitUndefined(query) } })),
    retrieveWebhook: (id: string, signal: AbortSignal) =>
      answerOf(client.GET('/v1/webhooks/{id}', { signal, params: at(id) })),
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
    retrieveWebhookStats: (id: string, signal: AbortSignal) =>
      answerOf(client.GET('/v1/webhooks/{id}/stats', { signal, params: at(id) })),
    recoverWebhook: (id: string, body: RecoverBody) =>
      answerOf(client.POST('/v1/webhooks/{id}/recover', { params: at(id), body })),
    listRecoveries: (id: string, signal: AbortSignal) =>
      answerOf(client.GET('/v1/webhooks/{id}/recoveries', { signal, params: { ...at(id), query: { limit: 5 } } })),

    listDeliveries: (query: DeliveryFilter, signal: AbortSignal) =>
      answerOf(client.GET('/v1/deliveries', { signal, params: { query: omitUndefined(query) as object } })),
    retrieveDelivery: (id: string, signal: AbortSignal) =>
      answerOf(client.GET('/v1/deliveries/{id}', { signal, params: at(id) })),
    resendDelivery: (id: string) => answerOf(client.POST('/v1/deliveries/{id}/resend', { params: at(id) })),

    listEvents: (query: EventFilter, signal: AbortSignal) =>
      answerOf(client.GET('/v1/events', { signal, params: { query: omitUndefined(query) as object } })),
    retrieveEvent: (id: string, signal: AbortSignal) =>
      answerOf(client.GET('/v1/events/{id}', { signal, params: at(id) })),
    listEventTypes: (signal: AbortSignal) => answerOf(client.GET('/v1/event_types', { signal })),

    listApiKeys: (query: Listing, signal: AbortSignal) =>
      answerOf(client.GET('/v1/api_keys', { signal, params: { query: omitUndefined(query) } })),
    createApiKey: (body: ApiKeyCreate) => answerOf(client.POST('/v1/api_keys', { body })),
    updateApiKey: (id: string, budgets: Budget[]) =>
      answerOf(client.PATCH('/v1/api_keys/{id}', { params: at(id), body: { budgets } })),
    deleteApiKey: (id: string) => answerOf(client.DELETE('/v1/api_keys/{id}', { params: at(id) })),
    listBudgets: (signal: AbortSignal) => answerOf(client.GET('/v1/budgets', { signal })),
    retrieveCredits: (signal: AbortSignal) => answerOf(client.GET('/v1/credits', { signal })),
    retrieveUsage: (query: { from: string; to: string; group_by: string }, signal: AbortSignal) =>
      answerOf(client.GET('/v1/usage', { signal, params: { query: query as object } })),

    listStoredObjects: (query: StoredFilter, signal: AbortSignal) =>
      answerOf(client.GET('/v1/stored_objects', { signal, params: { query: omitUndefined(query) as object } })),
    deleteStoredObject: (kind: StoredObjectKind, id: string) => deleteStored(client, kind, id),

    ...adminOperations(client),
  };
}

export type Api = ReturnType<typeof createApiClient>;

/** Asks the provider to delete something. @throws TypeError for a kind that has no such operation */
function deleteStored(client: Client<paths>, kind: StoredObjectKind, id: string): Promise<unknown> {
  switch (kind) {
    case 'file':
      return answerOf(client.DELETE('/v1/files/{file_id}', { params: { path: { file_id: id } } }));
    case 'vector_store':
      return answerOf(
        client.DELETE('/v1/vector_stores/{vector_store_id}', { params: { path: { vector_store_id: id } } }),
      );
    case 'container':
      return answerOf(client.DELETE('/v1/containers/{container_id}', { params: { path: { container_id: id } } }));
    case 'skill':
      return answerOf(client.DELETE('/v1/skills/{skill_id}', { params: { path: { skill_id: id } } }));
    case 'response':
      return answerOf(client.DELETE('/v1/responses/{response_id}', { params: { path: { response_id: id } } }));
    case 'conversation':
      return answerOf(
        client.DELETE('/v1/conversations/{conversation_id}', { params: { path: { conversation_id: id } } }),
      );
    case 'chat_completion':
      return answerOf(
        client.DELETE('/v1/chat/completions/{completion_id}', { params: { path: { completion_id: id } } }),
      );
  }
  throw new TypeError(`the API cannot delete a ${kind}`);
}

/** What the operator's views ask. It needs the scope `admin`. */
function adminOperations(client: Client<paths>) {
  const of = (user_id: string) => ({ path: { user_id } });
  const keyOf = (user_id: string, id: string) => ({ path: { user_id, id } });

  return {
    listAccounts: (query: Listing & { prefix: string | undefined }, signal: AbortSignal) =>
      answerOf(client.GET('/v1/admin/accounts', { signal, params: { query: omitUndefined(query) } })),
    retrieveAccount: (user_id: string, signal: AbortSignal) =>
      answerOf(client.GET('/v1/admin/accounts/{user_id}', { signal, params: of(user_id) })),
    listUserStoredObjects: (user_id: string, query: StoredFilter, signal: AbortSignal) =>
      answerOf(
        client.GET('/v1/users/{user_id}/stored_objects', {
          signal,
          params: { ...of(user_id), query: omitUndefined(query) as object },
        }),
      ),
    listFailingWebhooks: (query: Listing & { state: 'failing' | 'disabled' }, signal: AbortSignal) =>
      answerOf(client.GET('/v1/admin/webhooks', { signal, params: { query: omitUndefined(query) } })),
    listRefusals: (query: { hours: number; user_id: string | undefined }, signal: AbortSignal) =>
      answerOf(client.GET('/v1/admin/refusals', { signal, params: { query: omitUndefined(query) } })),
    searchIds: (id: string, signal: AbortSignal) =>
      answerOf(client.GET('/v1/admin/search', { signal, params: { query: { id } } })),

    listProcesses: (signal: AbortSignal) => answerOf(client.GET('/v1/admin/processes', { signal })),
    listUpstreams: (signal: AbortSignal) => answerOf(client.GET('/v1/admin/upstreams', { signal })),
    retrieveBacklog: (signal: AbortSignal) => answerOf(client.GET('/v1/admin/backlog', { signal })),

    updateUserBudgets: (user_id: string, budgets: Budget[]) =>
      answerOf(client.PUT('/v1/users/{user_id}/budgets', { params: of(user_id), body: { budgets } })),
    updateUserApiKey: (user_id: string, id: string, budgets: Budget[]) =>
      answerOf(client.PATCH('/v1/users/{user_id}/api_keys/{id}', { params: keyOf(user_id, id), body: { budgets } })),
    deleteUserApiKey: (user_id: string, id: string) =>
      answerOf(client.DELETE('/v1/users/{user_id}/api_keys/{id}', { params: keyOf(user_id, id) })),
  };
}

async function readSession(headers: Record<string, string>): Promise<Session> {
  const response = await reach(new Request(`${pageFolder()}/session`, { headers }));
  const body = await response.json().catch(() => undefined);
  if (!response.ok) throw toApiError(response, body);
  return body;
}

/** The page's own folder, without a slash at its end; everything the page asks for is in there. */
function pageFolder(): string {
  return new URL('.', window.location.href).href.replace(/\/$/, '');
}

/** As `fetch`, with an ApiError where no answer came. */
async function reach(request: Request): Promise<Response> {
  try {
    return await fetch(request);
  } catch (error) {
    if (request.signal.aborted) throw error;
    throw new ApiError('The gateway cannot be reached. Check your connection; this page tries again.', {
      status: 0,
      code: 'unreachable',
    });
  }
}

/**
 * The data of an answer.
 * @throws ApiError for any answer that is no success
 */
async function answerOf<T>(call: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  const { data, error, response } = await call;
  if (data === undefined) throw toApiError(response, error);
  return data;
}

type Defined<T> = { [Name in keyof T]?: NonNullable<T[Name]> };

/** Removes fields that are not set. The API checks the others. */
export function omitUndefined<T extends object>(query: T): Defined<T> {
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined)) as Defined<T>;
}
