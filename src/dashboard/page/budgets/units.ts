import type { Budget, BudgetUsage } from '../api/types.ts';

/** What budgets can have a maximum of. */
export const budgetUnits = ['tokens', 'requests', 'credits'] as const satisfies readonly (keyof BudgetUsage['used'])[];

export type BudgetUnit = (typeof budgetUnits)[number];

/** The periods of budgets, and their names in a form. */
export const periodNames = [
  ['day', 'a day'],
  ['month', 'a month'],
  ['total', 'in total'],
] as const satisfies readonly (readonly [Budget['period'], string])[];
