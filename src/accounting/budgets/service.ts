import { refuse } from '../../errors.ts';
import { checkUserId } from '../../ids.ts';
import { type Budget, type BudgetUsage, type KeyBudgets, toBudgets } from '../../options/budgets.ts';
import { needTotal, toBudgetUsage } from './budget-usage.ts';
import type { AccountBudgetsModel } from './model.ts';
import type { ReadUsed } from './used-amounts.ts';

export interface BudgetServiceDeps {
  readonly readUsed: ReadUsed;
  readonly accountBudgets: AccountBudgetsModel;
  /** Whether calls have prices. */
  readonly hasPrices: boolean;
}

/** The budgets of accounts and keys. */
export interface BudgetService {
  /**
   * The budgets of an account, and what it has used of them.
   * @throws GatewayError `invalid_value`
   */
  get(userId: string): Promise<BudgetUsage[]>;
  /**
   * Sets the budgets of an account, which need not be known before: in every process within a second. An empty list removes them.
   * @throws GatewayError `invalid_value`
   */
  set(userId: string, budgets: readonly Budget[]): Promise<BudgetUsage[]>;
  /** The budgets of an account as they are stored. */
  ofAccount(userId: string): Promise<readonly Budget[]>;
  readonly ofKeys: KeyBudgets;
}

export function createBudgetService({ readUsed, accountBudgets, hasPrices }: BudgetServiceDeps): BudgetService {
  async function ofAccount(userId: string): Promise<readonly Budget[]> {
    return (await accountBudgets.findById(userId).lean())?.budgets ?? [];
  }

  async function usageOf(userId: string, budgets: readonly Budget[]): Promise<BudgetUsage[]> {
    if (budgets.length === 0) return [];
    const used = await readUsed.ofAccount(userId, needTotal(budgets));
    return budgets.map((budget) => toBudgetUsage(budget, used));
  }

  function check(budgets: readonly Budget[]): void {
    const i = budgets.findIndex(({ credits }) => credits !== undefined);
    if (hasPrices || i === -1) return;
    const param = `budgets[${i}].credits`;
    refuse('invalid_value', param, 'this gateway has no prices, so it counts no credits; use tokens or requests');
  }

  return {
    ofAccount,

    async get(userId) {
      checkUserId(userId);
      return usageOf(userId, await ofAccount(userId));
    },

    async set(userId, given) {
      checkUserId(userId);
      const budgets = toBudgets(given);
      check(budgets);
      await accountBudgets.updateOne({ _id: userId }, { $set: { budgets } }, { upsert: true });
      return usageOf(userId, budgets);
    },

    ofKeys: {
      check,
      async usage(userId, keys) {
        const limited = keys.filter(({ budgets }) => budgets.length > 0);
        if (limited.length === 0) return new Map();
        const withTotal = limited.some(({ budgets }) => needTotal(budgets));
        const ids = limited.map(({ id }) => id);
        const used = await readUsed.ofKeys(userId, ids, withTotal);
        return new Map(
          limited.map(({ id, budgets }) => {
            const ofKey = used.get(id);
            return [id, ofKey ? budgets.map((budget) => toBudgetUsage(budget, ofKey)) : []];
          }),
        );
      },
    },
  };
}
