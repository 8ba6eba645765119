import type { Budget, BudgetUsage } from '../../budgets.ts';
import { GatewayError } from '../../errors.ts';
import { needTotal, toBudgetUsage } from './budget-usage.ts';
import type { ReadUsed } from './used-amounts.ts';

export interface BudgetServiceDeps {
  readonly readUsed: ReadUsed;
  /** Whether calls have prices. */
  readonly hasPrices: boolean;
}

/** The budgets of API keys, which `keys` stores. */
export interface BudgetService {
  /** @throws GatewayError `invalid_value` for a budget of credits where nothing has a price */
  check(budgets: readonly Budget[]): void;
  /** What keys of an account have used of their budgets, by the id of the key. */
  usage(
    userId: string,
    keys: readonly { readonly id: string; readonly budgets: readonly Budget[] }[],
  ): Promise<ReadonlyMap<string, readonly BudgetUsage[]>>;
}

export function createBudgetService({ readUsed, hasPrices }: BudgetServiceDeps): BudgetService {
  return {
    check(budgets) {
      const i = budgets.findIndex(({ credits }) => credits !== undefined);
      if (hasPrices || i === -1) return;
      const param = `budgets[${i}].credits`;
      throw new GatewayError('invalid_value', `${param}: this gateway has no prices, so it counts no credits`, {
        param,
      });
    },

    async usage(userId, keys) {
      const limited = keys.filter(({ budgets }) => budgets.length > 0);
      if (limited.length === 0) return new Map();
      const withTotal = limited.some(({ budgets }) => needTotal(budgets));
      const used = await readUsed.ofKeys(
        userId,
        limited.map(({ id }) => id),
        withTotal,
      );
      return new Map(
        limited.map(({ id, budgets }) => {
          const ofKey = used.get(id);
          return [id, ofKey ? budgets.map((budget) => toBudgetUsage(budget, ofKey)) : []];
        }),
      );
    },
  };
}
