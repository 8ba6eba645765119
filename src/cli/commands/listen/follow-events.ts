import type { Schemas } from '../../client/api.ts';
import { gather, type ResultPage } from '../../client/pages.ts';

type PastEvent = Schemas['PastEvent'];

/** Events, newest first. */
type ListEvents = (query: { limit: number; after?: string; since?: string }) => Promise<ResultPage<PastEvent>>;

/** Milliseconds that an event may appear later than one made after it, such as one of a transaction. */
const overlap = 10_000;

/**
 * Follows events by looking at the newest few seconds of the list again and again. All times that are compared are the
 * gateway's own.
 */
export function followEvents(list: ListEvents): { next(): Promise<PastEvent[]> } {
  const seenEvents = new Map<string, string>();
  let since: string | undefined;
  let hasBegun = false;

  async function readNew(): Promise<PastEvent[]> {
    const { data } = await gather(Number.POSITIVE_INFINITY, (query) => list({ ...query, ...(since && { since }) }));
    const unseen = data.filter(({ id }) => !seenEvents.has(id));
    for (const { id, created } of unseen) seenEvents.set(id, created);
    const [newest] = data;
    if (newest) since = new Date(Date.parse(newest.created) - overlap).toISOString();
    for (const [id, created] of seenEvents) if (since && created < since) seenEvents.delete(id);
    return unseen.reverse();
  }

  return {
    /** The events since the last time, oldest first; none at the first time. */
    async next() {
      if (hasBegun) return readNew();
      const [newest] = (await list({ limit: 1 })).data;
      if (newest) since = new Date(Date.parse(newest.created) - overlap).toISOString();
      await readNew();
      hasBegun = true;
      return [];
    },
  };
}
