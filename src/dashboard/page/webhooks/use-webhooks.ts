import type { WebhookList } from '../api/types.ts';
import { type Query, useQuery } from '../data/use-query.ts';
import { useApi } from '../session/session.ts';

/** The account's webhooks, as many as one page holds. */
export function useWebhooks(after?: string): Query<WebhookList> {
  const api = useApi();
  return useQuery((signal) => api.listWebhooks({ limit: 100, after }, { signal }), { key: `webhooks ${after}` });
}
