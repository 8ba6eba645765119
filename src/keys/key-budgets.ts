import type { Budget, BudgetUsage } from '../budgets.ts';
import { GatewayError } from '../errors.ts';
import type { ApiKey } from './api-key.ts';
import type { KeyDocument } from './model.ts';

/** What has been counted of the budgets of keys. */
export interface KeyBudgets {
  /** @throws GatewayError `invalid_value` for a budget that this gateway cannot count */
  check(budgets: readonly Budget[]): void;
  /** What keys of an account have used of their budgets, by the id of the key. */
  usage(
    userId: string,
    keys: readonly { readonly id: string; readonly budgets: readonly Budget[] }[],
  ): Promise<ReadonlyMap<string, readonly BudgetUsage[]>>;
}

/** Of a gateway that does not count. */
export const noBudgets: KeyBudgets = {
  check(budgets) {
    if (budgets.length === 0) return;
    throw new GatewayError(
      'invalid_value',
      'budgets: this gateway does not count usage, so it has no budgets; leave them out',
      { param: 'budgets' },
    );
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
