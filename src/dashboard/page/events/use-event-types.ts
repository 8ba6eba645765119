import type { EventType } from '../api/types.ts';
import { type Query, useQuery } from '../data/use-query.ts';
import { useApi } from '../session/session.ts';

/** What a webhook may subscribe to. */
export function useEventTypes(): Query<{ data: EventType[] }> {
  const api = useApi();
  return useQuery((signal) => api.listEventTypes({ signal }), { key: 'event types' });
}
