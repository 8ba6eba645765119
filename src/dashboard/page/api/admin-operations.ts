import type { Client } from 'openapi-fetch';
import type { paths } from '../../../api.d.ts';
import { answerOf } from './client.ts';
import { omitUndefined } from './omit-undefined.ts';
import type { Budget } from './types.ts';

type Signal = { signal?: AbortSignal };
type Page = { limit: number; after: string | undefined };

/** What the operator's views ask of the API, by the names that openapi.yaml has for it. It needs the scope `admin`. */
export function adminOperations(client: Client<paths>) {
  const of = (user_id: string) => ({ path: { user_id } });
  const keyOf = (user_id: string, id: string) => ({ path: { user_id, id } });

  return {
    listAccounts: (query: Page & { prefix: string | undefined }, init: Signal) =>
      answerOf(client.GET('/v1/admin/accounts', { ...init, params: { query: omitUndefined(query) } })),
    retrieveAccount: (user_id: string, init: Signal) =>
      answerOf(client.GET('/v1/admin/accounts/{user_id}', { ...init, params: of(user_id) })),
    listFailingWebhooks: (query: Page & { state: 'failing' | 'disabled' }, init: Signal) =>
      answerOf(client.GET('/v1/admin/webhooks', { ...init, params: { query: omitUndefined(query) } })),
    listRefusals: (query: { hours: number; user_id: string | undefined }, init: Signal) =>
      answerOf(client.GET('/v1/admin/refusals', { ...init, params: { query: omitUndefined(query) } })),
    searchIds: (id: string, init: Signal) =>
      answerOf(client.GET('/v1/admin/search', { ...init, params: { query: { id } } })),

    listProcesses: (init: Signal) => answerOf(client.GET('/v1/admin/processes', init)),
    listUpstreams: (init: Signal) => answerOf(client.GET('/v1/admin/upstreams', init)),
    retrieveBacklog: (init: Signal) => answerOf(client.GET('/v1/admin/backlog', init)),

    updateUserBudgets: (user_id: string, budgets: Budget[]) =>
      answerOf(client.PUT('/v1/users/{user_id}/budgets', { params: of(user_id), body: { budgets } })),
    updateUserApiKey: (user_id: string, id: string, budgets: Budget[]) =>
      answerOf(client.PATCH('/v1/users/{user_id}/api_keys/{id}', { params: keyOf(user_id, id), body: { budgets } })),
    deleteUserApiKey: (user_id: string, id: string) =>
      answerOf(client.DELETE('/v1/users/{user_id}/api_keys/{id}', { params: keyOf(user_id, id) })),
  };
}
