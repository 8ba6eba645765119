import { createBatcher } from '../mongo/batcher.ts';
import type { ReadConfirmed } from '../mongo/confirmed-reads.ts';
import { toRecord } from './api-key.ts';
import type { KeyRecord } from './key-cache.ts';
import { type KeyDocument, type KeyModel, keysIn } from './model.ts';

/** Keys in one query. */
const maxSize = 500;
const concurrency = 2;
/** Milliseconds. */
const timeout = 10_000;

/** Whether a key may be used at this moment, by the clock of the database. */
const good = {
  $and: [
    { $eq: ['$revokedAt', null] },
    // a missing field sorts before null, and null before every date
    { $or: [{ $lte: ['$expiresAt', null] }, { $gt: ['$expiresAt', '$$NOW'] }] },
  ],
};
const recordFields = { hash: 1, userId: 1, scopes: 1, models: 1, budgets: 1, expiresAt: 1, good } as const;

/**
 * Reads the records of keys. Look-ups at the same moment share a query, so that a flood of random keys stays cheap.
 * Rejects with a TimeoutError if it is not certain that there is no such key.
 */
export function createLookUp(keys: KeyModel, readConfirmed: ReadConfirmed): (id: string) => Promise<KeyRecord | null> {
  const lookUps = createBatcher<string, KeyRecord | null>({
    maxSize,
    concurrency,
    timeout,
    async write(ids) {
      const found = await keys.find({ _id: keysIn(ids) }, recordFields).lean<(KeyDocument & { good: boolean })[]>();
      const byId = new Map(found.map((key) => [key._id, toRecord(key, key.good)]));
      return ids.map((id) => byId.get(id) ?? null);
    },
  });
  return (id) => readConfirmed(id, () => lookUps.add(id));
}
