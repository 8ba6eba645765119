import type { EventDocument } from '../../src/events/model.ts';
import type { Cluster } from './cluster/cluster.ts';
import type { Abandoned } from './load.ts';

/** What became of the publications that nobody tried again. */
export interface Aftermath {
  /** Those whose event is there now, and must be delivered as any other. */
  readonly stored: readonly string[];
  readonly notes: readonly string[];
}

/**
 * Follows up publications that nobody tried again, of this row and of earlier ones, for what was not confirmed may be stored later.
 * Each is wholly there or wholly absent; `database_unavailable` says that nothing was stored.
 */
export function createFollowUp({ connection }: Cluster) {
  const open = new Map<string, string>();
  return async (abandoned: readonly Abandoned[]): Promise<Aftermath> => {
    for (const { idempotencyKey, error } of abandoned) open.set(idempotencyKey, error);
    const stored = await connection
      .collection<EventDocument>('gateway_events')
      .find({ idempotencyKey: { $in: [...open.keys()] } })
      .toArray();
    const denied = stored.filter(({ idempotencyKey }) => open.get(idempotencyKey) === 'database_unavailable');
    for (const { idempotencyKey } of stored) open.delete(idempotencyKey);
    return {
      stored: stored.map(({ _id }) => _id),
      notes: denied.map(({ _id }) => `${_id} was stored, and its publisher told that nothing was`),
    };
  };
}

export type FollowUp = ReturnType<typeof createFollowUp>;
