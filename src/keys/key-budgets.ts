import { refuse } from '../errors.ts';
import type { KeyBudgets } from '../options/budgets.ts';
import type { ApiKey } from './api-key.ts';
import type { KeyDocument } from './model.ts';

/** Of a gateway that does not count. */
export const noBudgets: KeyBudgets = {
  check(budgets) {
    if (budgets.length === 0) return;
    refuse('invalid_value', 'budgets', 'this gateway does not count usage, so it has no budgets; leave them out');
  },
  usage: async () => new Map(),
};

/** Stored keys of one account, with what they have used of their budgets. */
export async function toApiKeys(found: readonly KeyDocument[], { usage }: KeyBudgets): Promise<ApiKey[]> {
  const [first] = found;
  if (!first) return [];
  const used = await usage(
    first.userId,
    found.map(({ _id: id, budgets = [] }) => ({ id, budgets })),
  );
  return found.map(({ _id: id, hash: _, slot: __, ...key }) => ({ id, ...key, budgets: used.get(id) ?? [] }));
}

/** A stored key, with what it has used of its budgets. */
export async function toApiKey(found: KeyDocument, budgets: KeyBudgets): Promise<ApiKey> {
  const [key] = await toApiKeys([found], budgets);
  return key as ApiKey;
}
