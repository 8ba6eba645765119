import type { ClientSession } from 'mongoose';
import { durableCollection, inOneBatch } from '../../mongo/collection.ts';
import type { CounterModel, KeyTotalDocument, KeyTotalModel, UsageSums } from './model.ts';
import { increments, type KeyTotalAddition, keyTotalId, noUsage } from './sums.ts';

export interface KeyTotalDeps {
  readonly counters: CounterModel;
  readonly keyTotals: KeyTotalModel;
}

/** Adds to the totals of keys. Call it before the same records are added to the counters. */
export type AddToKeyTotals = (
  additions: readonly KeyTotalAddition[],
  inSession: { readonly session?: ClientSession },
) => Promise<void>;

/** The counters of one key together. */
interface CountersOfKey extends UsageSums {
  readonly _id: Pick<KeyTotalDocument, 'userId' | 'keyId'>;
  readonly microCredits: number;
}

const summedFields = [...Object.keys(noUsage()), 'microCredits'];

const summed = Object.fromEntries(summedFields.map((field) => [field, { $sum: `$${field}` }]));

/**
 * A total that is new begins with what the counters of its key hold: a key that was used before there were totals has some. In a
 * transaction, no other process can add to either at the same time; without one, only one process counts.
 */
export function createAddToKeyTotals(deps: KeyTotalDeps): AddToKeyTotals {
  const counters = durableCollection(deps.counters);
  const keyTotals = durableCollection(deps.keyTotals);

  return async function addToKeyTotals(additions, inSession) {
    if (additions.length === 0) return;
    const { upsertedIds } = await keyTotals.bulkWrite(increments(additions), inSession);
    const added = Object.keys(upsertedIds).map((index) => (additions[Number(index)] as KeyTotalAddition).key);
    if (added.length === 0) return;
    const ids = new Set(added.map(({ _id }) => _id));
    const filter = {
      userId: { $in: added.map(({ userId }) => userId) },
      keyId: { $in: added.map(({ keyId }) => keyId) },
    };
    const groups = await counters
      .aggregate<CountersOfKey>(
        [{ $match: filter }, { $group: { _id: { userId: '$userId', keyId: '$keyId' }, ...summed } }],
        { ...inSession, ...inOneBatch },
      )
      .toArray();
    const before = groups
      .map(({ _id: { userId, keyId }, ...sums }) => ({ _id: keyTotalId(userId, keyId), sums }))
      .filter(({ _id }) => ids.has(_id));
    if (before.length === 0) return;
    await keyTotals.bulkWrite(
      before.map(({ _id, sums }) => ({ updateOne: { filter: { _id }, update: { $inc: sums } } })),
      inSession,
    );
  };
}
