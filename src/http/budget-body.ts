import type { components } from '../api.d.ts';
import { GatewayError } from '../errors.ts';
import type { BudgetUsage } from '../options/budgets.ts';
import type { Principal } from '../options/principal.ts';

/** A budget as the API answers it. */
export function toBudgetBody({ resetsAt, ...budget }: BudgetUsage): components['schemas']['BudgetUsage'] {
  return { ...budget, resets_at: resetsAt?.toISOString() ?? null };
}

/**
 * A key with budgets cannot get around them, neither with another key nor by changing them.
 * @param param the field of the request that would
 * @throws GatewayError `budget_not_allowed`
 */
export function requireNoBudgets({ budgets = [] }: Principal, param: 'budgets' | 'scopes' = 'budgets'): void {
  if (budgets.length === 0) return;
  const refused = param === 'budgets' ? 'change budgets' : 'create keys with the scope models or admin';
  const message = `${param}: your own key has budgets, so it cannot ${refused}; use a key without budgets`;
  throw new GatewayError('budget_not_allowed', message, { param });
}
