import { createBatcher } from '../../mongo/batcher.ts';
import type { ReadConfirmed } from '../../mongo/confirmed-reads.ts';
import { toRecord } from '../api-key.ts';
import { findForUse, type KeyModel } from '../model.ts';
import type { KeyRecord } from './key-cache.ts';

/** Keys in one query. */
const maxSize = 500;
const concurrency = 2;
/** Milliseconds. */
const timeout = 10_000;

/**
 * Reads the records of keys. Look-ups at the same moment share a query, so that a flood of random keys stays cheap.
 * Rejects with a TimeoutError if it is not certain that there is no such key.
 */
export function createLookUp(
  keys: KeyModel,
  readConfirmed: ReadConfirmed,
  accountBudgets: string,
): (id: string) => Promise<KeyRecord | null> {
  const lookUps = createBatcher<string, KeyRecord | null>({
    maxSize,
    concurrency,
    timeout,
    async write(ids) {
      const documents = await findForUse(keys, ids, accountBudgets);
      const byId = new Map(documents.map((key) => [key._id, toRecord(key, key.good, key.account[0]?.budgets)]));
      return ids.map((id) => byId.get(id) ?? null);
    },
  });
  return (id) => readConfirmed(id, () => lookUps.add(id));
}
