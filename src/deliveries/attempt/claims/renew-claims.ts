import { durableCollection, inOneBatch } from '../../../mongo/collection.ts';
import type { DeliveryModel } from '../../model.ts';
import type { Claim } from './claim.ts';

/**
 * Renews the leases whose deliveries still have their claim's token, and returns those claims.
 * @param set the fields that renew a lease
 */
export type RenewHeld = (claims: readonly Claim[], set: object) => Promise<readonly Claim[]>;

/** @param field the field that holds the lease */
export function createRenewHeld(deliveries: DeliveryModel, field: 'lease' | 'manual'): RenewHeld {
  const collection = durableCollection(deliveries);

  return async function renewHeld(claims, set) {
    const held = {
      _id: { $in: claims.map(({ delivery }) => delivery._id) },
      [`${field}.token`]: { $in: [...new Set(claims.map(({ token }) => token))] },
    };
    const { matchedCount } = await collection.updateMany(held, [{ $set: set }]);
    if (matchedCount === claims.length) return claims;
    const documents = await collection.find(held, { ...inOneBatch, projection: { [field]: 1 } }).toArray();
    const tokens = new Map(documents.map((delivery) => [delivery._id, delivery[field]?.token]));
    return claims.filter(({ delivery, token }) => tokens.get(delivery._id) === token);
  };
}
