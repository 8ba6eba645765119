import { durableCollection } from '../mongo/collection.ts';
import type { DeliveryModel } from './model.ts';

/** Whose deliveries. */
export type Owner = { readonly userId: string } | { readonly webhookId: string };

/**
 * The types that somebody's deliveries have. The indexes have owner, type and state before the id: with all types and all
 * states named, MongoDB reads as many ranges of them at once and merges them by id, so that any filter finds its page in
 * the index. One index for accounts and one for webhooks do for every combination; each costs writes.
 */
export type PresentTypes = (owner: Owner) => Promise<string[]>;

/** So many ranges are merged, at most; more would be sorted in memory (MongoDB's internalQueryMaxScansToExplode). */
export const mostRanges = 200;

/** Reads them by skipping through the index: as many steps as there are types. */
export function createPresentTypes(model: DeliveryModel): PresentTypes {
  const collection = durableCollection(model);
  return (owner) => collection.distinct('type', owner);
}
