import { useState } from 'preact/hooks';
import { BudgetLines } from '../budgets/budget-lines.tsx';
import { EditBudgets } from '../budgets/edit-budgets.tsx';
import { useQuery } from '../data/use-query.ts';
import { Button } from '../elements/button.tsx';
import { useApi, useSession } from '../session/session.ts';

/** Milliseconds. */
const refreshEvery = 10_000;

/** The account's budgets and what is used of them; nothing where it has none and this session may set none. */
export function BudgetsCard() {
  const api = useApi();
  const { scopes, user_id, has_budgets } = useSession();
  const query = useQuery((signal) => api.listBudgets({ signal }), { key: 'budgets', every: () => refreshEvery });
  const [editing, setEditing] = useState(false);
  const budgets = query.data?.data;
  const mayEdit = scopes.includes('admin') && !has_budgets;
  if (!budgets || (budgets.length === 0 && !mayEdit)) return null;
  return (
    <section class="card" aria-labelledby="budgets">
      <div class="card-head">
        <h2 id="budgets">Budgets</h2>
        {mayEdit && (
          <Button label="Edit the budgets of the account" onClick={() => setEditing(true)}>
            Edit
          </Button>
        )}
      </div>
      <div class="card-body">
        <BudgetLines budgets={budgets} />
      </div>
      {editing && (
        <EditBudgets
          title={`Budgets of the account ${user_id}`}
          of="account"
          budgets={budgets}
          save={(changed) => api.updateUserBudgets(user_id, changed)}
          onClose={() => {
            setEditing(false);
            query.reload();
          }}
        />
      )}
    </section>
  );
}
