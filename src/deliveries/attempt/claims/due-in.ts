import { createBatcher } from '../../../mongo/batcher.ts';
import { durableCollection } from '../../../mongo/collection.ts';
import type { DeliveryModel } from '../../model.ts';
import type { AttemptKey } from '../attempt-ref.ts';

/** Attempts in one read. */
const maxSize = 500;

/** Milliseconds until an attempt is due; `null` if it is claimed or already made. Many in one read. */
export function createDueIn(deliveries: DeliveryModel): (attempt: AttemptKey) => Promise<number | null> {
  const collection = durableCollection(deliveries);
  const waits = createBatcher<AttemptKey, number | null>({
    maxSize,
    async write(attempts) {
      const documents = await collection
        .aggregate<{ _id: string; attempt: number; wait: number }>([
          { $match: { _id: { $in: attempts.map(({ deliveryId }) => deliveryId) }, state: 'pending', lease: null } },
          { $project: { attempt: 1, wait: { $max: [0, { $subtract: ['$claimableAt', '$$NOW'] }] } } },
        ])
        .toArray();
      const byId = new Map(documents.map((delivery) => [delivery._id, delivery]));
      return attempts.map(({ deliveryId, attempt }) => {
        const delivery = byId.get(deliveryId);
        return delivery?.attempt === attempt ? delivery.wait : null;
      });
    },
  });
  return waits.add;
}
