import type { EventModel } from '../events/model.ts';
import { firstId } from '../ids.ts';
import { distinctValues, durableCollection } from '../mongo/collection.ts';
import { confirm } from '../mongo/confirmed-reads.ts';
import type { ClaimsDeps } from './claims.ts';

/** Events in one step. */
const batchSize = 500;

export interface EventExpiryDeps extends Pick<ClaimsDeps, 'deliveries' | 'retention'> {
  readonly events: EventModel;
}

/**
 * Lets events expire that are older than the retention and have no delivery left. Deliveries expire on their own after their
 * end, so a pending delivery never loses its event.
 */
export async function expireEvents(deps: EventExpiryDeps): Promise<void> {
  const collection = durableCollection(deps.events);
  const deliveries = durableCollection(deps.deliveries);
  const before = firstId('evt', Date.now() - deps.retention);
  const options = { projection: { _id: 1 }, sort: { _id: 1 }, limit: batchSize } as const;
  let after = '';
  for (;;) {
    const filter = { _id: { $gt: after, $lt: before }, fanOut: 'done', expiresAt: { $exists: false } } as const;
    const ids = (await collection.find(filter, options).toArray()).map(({ _id }) => _id);
    const last = ids.at(-1);
    if (last === undefined) return;
    after = last;
    const needed = new Set(
      await confirm((options) => distinctValues(deliveries, 'eventId', { eventId: { $in: ids } }, options)),
    );
    const expired = ids.filter((id) => !needed.has(id));
    await collection.updateMany({ _id: { $in: expired } }, [{ $set: { expiresAt: '$$NOW' } }]);
  }
}
