import { createBatcher } from '../../../mongo/batcher.ts';
import { durableCollection } from '../../../mongo/collection.ts';
import type { DeliveryModel } from '../../model.ts';
import type { AttemptRef } from '../attempt-ref.ts';

type Wanted = Pick<AttemptRef, 'deliveryId' | 'attempt'>;

/** Attempts in one read. */
const maxSize = 500;

/** Milliseconds until an attempt is due; `null` if it is claimed or already made. Many in one read. */
export function createDueIn(deliveries: DeliveryModel): (wanted: Wanted) => Promise<number | null> {
  const collection = durableCollection(deliveries);
  const waits = createBatcher<Wanted, number | null>({
    maxSize,
    async write(wanted) {
      const documents = await collection
        .aggregate<{ _id: string; attempt: number; wait: number }>([
          { $match: { _id: { $in: wanted.map(({ deliveryId }) => deliveryId) }, state: 'pending', lease: null } },
          { $project: { attempt: 1, wait: { $max: [0, { $subtract: ['$claimableAt', '$$NOW'] }] } } },
        ])
        .toArray();
      const byId = new Map(documents.map((delivery) => [delivery._id, delivery]));
      return wanted.map(({ deliveryId, attempt }) => {
        const delivery = byId.get(deliveryId);
        return delivery?.attempt === attempt ? delivery.wait : null;
      });
    },
  });
  return waits.add;
}
