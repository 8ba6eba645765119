import { checkUserId, isId } from '../ids.ts';
import { durableCollection } from '../mongo/collection.ts';
import { confirmAbsent } from '../mongo/confirmed-reads.ts';
import { type KeyBudgets, toBudgets } from '../options/budgets.ts';
import type { ApiKey, ApiKeyPatch } from './api-key.ts';
import { toApiKey } from './key-budgets.ts';
import type { KeyModel } from './model.ts';

export interface UpdateDeps {
  readonly keys: KeyModel;
  readonly budgets: KeyBudgets;
  /** Called with the id of each key that was changed. */
  readonly onUpdated: (id: string) => void;
}

/**
 * Changes a key: in this process at once, in every other process within a second.
 * @param userId the account that the key must belong to. @default any
 * @returns `null` if there is no such key
 * @throws GatewayError `invalid_value`
 */
export type Update = (id: string, patch: ApiKeyPatch, userId?: string) => Promise<ApiKey | null>;

export function createUpdate({ keys, budgets: keyBudgets, onUpdated }: UpdateDeps): Update {
  return async function update(id, patch, userId) {
    if (!isId('key', id)) return null;
    if (userId !== undefined) checkUserId(userId);
    const budgets = toBudgets(patch.budgets);
    keyBudgets.check(budgets);
    const filter = userId === undefined ? { _id: id } : { _id: id, userId };
    const key = await keys.findOneAndUpdate(filter, { $set: { budgets } }, { returnDocument: 'after' }).lean();
    if (!key) {
      // a replaced primary may not know the key
      await confirmAbsent(durableCollection(keys), filter);
      return null;
    }
    onUpdated(id);
    return toApiKey(key, keyBudgets);
  };
}
