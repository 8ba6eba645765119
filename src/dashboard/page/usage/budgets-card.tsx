import { BudgetLines } from '../budgets/budget-lines.tsx';
import { useQuery } from '../data/use-query.ts';
import { useApi } from '../session/session.ts';

/** Milliseconds. */
const refreshEvery = 10_000;

/** The account's budgets and what is used of them; nothing where it has none. */
export function BudgetsCard() {
  const api = useApi();
  const query = useQuery((signal) => api.listBudgets({ signal }), { key: 'budgets', every: () => refreshEvery });
  const budgets = query.data?.data ?? [];
  if (budgets.length === 0) return null;
  return (
    <section class="card" aria-labelledby="budgets">
      <div class="card-head">
        <h2 id="budgets">Budgets</h2>
      </div>
      <div class="card-body">
        <BudgetLines budgets={budgets} />
      </div>
    </section>
  );
}
