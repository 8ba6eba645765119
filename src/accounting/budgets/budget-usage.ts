import type { Budget, BudgetPeriod, BudgetUnit, BudgetUsage } from '../../options/budgets.ts';
import { microCreditsPerCredit } from '../micro-credits.ts';
import type { Amounts, UsedAmounts } from './used-amounts.ts';

/** When the period that a moment is in ends, UTC; `null` for `total`. Pure. */
export function resetOf(period: BudgetPeriod, at: Date): Date | null {
  if (period === 'total') return null;
  const [year, month] = [at.getUTCFullYear(), at.getUTCMonth()];
  return new Date(period === 'day' ? Date.UTC(year, month, at.getUTCDate() + 1) : Date.UTC(year, month + 1, 1));
}

/** In the units of budgets. Pure. */
export function usedUnits({ tokens, requests, microCredits }: Amounts): Record<BudgetUnit, number> {
  return { tokens, requests, credits: microCredits / microCreditsPerCredit };
}

/** A budget with what has been used of it. Pure. */
export function toBudgetUsage(budget: Budget, used: UsedAmounts): BudgetUsage {
  const { period } = budget;
  return { ...budget, used: usedUnits(used[period]), resetsAt: resetOf(period, used.at) };
}

/** Whether one of these budgets is for all that was ever used. Pure. */
export function needTotal(budgets: readonly Budget[]): boolean {
  return budgets.some(({ period }) => period === 'total');
}
