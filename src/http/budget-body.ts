import type { components } from '../api.d.ts';
import type { BudgetUsage } from '../budgets.ts';
import { GatewayError } from '../errors.ts';
import type { Principal } from './principal.ts';

/** A budget as the API answers it. */
export function toBudgetBody({ resetsAt, ...budget }: BudgetUsage): components['schemas']['BudgetUsage'] {
  return { ...budget, resets_at: resetsAt?.toISOString() ?? null };
}

/**
 * With a key that has budgets, nobody gets around them: not with another key, and not by changing them.
 * @throws GatewayError `budget_not_allowed`
 */
export function requireNoBudgets({ budgets = [] }: Principal): void {
  if (budgets.length === 0) return;
  const message =
    'budgets: your own key has budgets, so it can neither change budgets nor create keys with the scope models';
  throw new GatewayError('budget_not_allowed', message, { param: 'budgets' });
}
