import { durableCollection } from '../events/model.ts';
import type { Bell } from './intake.ts';
import type { DeliveryModel } from './model.ts';

/**
 * Deliveries whose attempt is due and unclaimed, or whose worker let its lease lapse; longest due first.
 * An index range, whatever waits for later.
 */
export type FindClaimable = (limit: number, exceptWebhooks: readonly string[]) => Promise<Bell[]>;

/** Reads what is due by the database's clock. */
export function createFindClaimable(deliveries: DeliveryModel): FindClaimable {
  const collection = durableCollection(deliveries);
  return async function findClaimable(limit, exceptWebhooks) {
    const found = await collection
      .find(
        {
          state: 'pending',
          $expr: { $lte: ['$claimableAt', '$$NOW'] },
          ...(exceptWebhooks.length > 0 && { webhookId: { $nin: [...exceptWebhooks] } }),
        },
        { projection: { webhookId: 1, attempt: 1 } },
      )
      .sort({ claimableAt: 1 })
      .limit(limit)
      .toArray();
    return found.map(({ _id, webhookId, attempt }) => ({ deliveryId: _id, webhookId, attempt }));
  };
}
