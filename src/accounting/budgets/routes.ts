import type { operations } from '../../api.d.ts';
import { GatewayError } from '../../errors.ts';
import { requireNoBudgets, toBudgetBody } from '../../http/budget-body.ts';
import type { OperationTable, ReplyOf } from '../../http/operation.ts';
import type { BudgetUsage } from '../../options/budgets.ts';
import type { BudgetService } from './service.ts';

type Budgets = Pick<BudgetService, 'get' | 'set'>;

function required(service: Budgets | undefined): Budgets {
  if (!service)
    throw new GatewayError(
      'not_found',
      'This gateway does not count usage, so it has no budgets; its operator can turn usage on with the option usage',
    );
  return service;
}

function answer(budgets: readonly BudgetUsage[]): ReplyOf<operations['listBudgets']> {
  return { status: 200, body: { data: budgets.map(toBudgetBody) } };
}

/**
 * The operations on the budgets of accounts.
 * @param service absent if usage is not counted
 */
export function budgetOperations(service: Budgets | undefined) {
  return {
    listBudgets: {
      handle: async ({ principal }) => answer(await required(service).get(principal.userId)),
    },
    listUserBudgets: {
      handle: async ({ params: { user_id } }) => answer(await required(service).get(user_id)),
    },
    updateUserBudgets: {
      async handle({ principal, params: { user_id }, body: { budgets } }) {
        requireNoBudgets(principal);
        return answer(await required(service).set(user_id, budgets));
      },
    },
  } satisfies Partial<OperationTable>;
}
