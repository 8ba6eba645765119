import type { EventKey } from './stored-event.ts';

/** Matches these events. The accounts tell a mongos which shards to ask; on one replica set they change nothing. */
export function byKeys(events: readonly EventKey[]) {
  return {
    _id: { $in: events.map(({ _id }) => _id) },
    userId: { $in: [...new Set(events.map(({ userId }) => userId))] },
  };
}

/** The index for it: one look-up for each event, where an index by account would make one for each pair. */
export const hintOfKeys = { hint: { _id: 1 } } as const;
