import { BudgetsSection } from '../budgets/budgets-section.tsx';
import { refreshEvery, useQuery } from '../data/use-query.ts';
import { useSession } from '../session/session.ts';

/** The account's budgets and what is used of them; nothing where it has none and this session may set none. */
export function BudgetsCard() {
  const { api, user_id } = useSession();
  const query = useQuery((signal) => api.listBudgets({ signal }), { key: 'budgets', every: () => refreshEvery });
  if (!query.data) return null;
  return <BudgetsSection userId={user_id} budgets={query.data.data} onClose={query.reload} />;
}
