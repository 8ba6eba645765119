import type { Outbox } from '../events/store/outbox.ts';
import { durableCollection } from '../mongo/collection.ts';
import { confirm } from '../mongo/confirmed-reads.ts';
import type { DeliveryModel } from './model.ts';

/** Events in one step of the retention. */
const retentionBatch = 500;

/**
 * Lets events expire that are older than the retention and have no delivery left. Deliveries expire on their own after their
 * end, so a pending delivery never loses its event.
 * @param retention milliseconds
 */
export function createRetention(
  deliveries: DeliveryModel,
  outbox: Pick<Outbox, 'unexpired' | 'expire'>,
  retention: number,
) {
  const collection = durableCollection(deliveries);
  return async function expireEvents(): Promise<void> {
    const before = Date.now() - retention;
    let after = '';
    for (;;) {
      const ids = await outbox.unexpired(before, after, retentionBatch);
      const last = ids.at(-1);
      if (last === undefined) return;
      after = last;
      const eventId = { $in: ids };
      const needed = new Set(await confirm((options) => collection.distinct('eventId', { eventId }, options)));
      await outbox.expire(ids.filter((id) => !needed.has(id)));
    }
  };
}
