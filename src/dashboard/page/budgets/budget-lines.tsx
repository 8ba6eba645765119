import type { BudgetUsage } from '../api/types.ts';
import { Badge } from '../elements/badge.tsx';
import { Ago } from '../elements/time.tsx';
import { amount } from '../format/number.ts';
import { budgetUnits } from './units.ts';

const spans: Readonly<Record<BudgetUsage['period'], string>> = { day: 'today', month: 'this month', total: 'in total' };

/** Budgets and what is used of them, a line for each maximum. Days and months are UTC. */
export function BudgetLines({ budgets }: { budgets: readonly BudgetUsage[] }) {
  if (budgets.length === 0) return <span class="muted">None</span>;
  return (
    <ul class="budgets numbers">
      {budgets.flatMap((budget) =>
        budgetUnits.map((unit) => {
          const maximum = budget[unit];
          const used = budget.used[unit];
          return maximum === undefined ? null : (
            <li key={`${budget.period} ${unit}`}>
              {amount(used)} of {amount(maximum)} {unit} {spans[budget.period]}{' '}
              {used >= maximum && <Badge shape="bad">Used up</Badge>}{' '}
              {budget.resets_at && (
                <span class="muted small">
                  resets <Ago at={budget.resets_at} />
                </span>
              )}
            </li>
          );
        }),
      )}
    </ul>
  );
}
