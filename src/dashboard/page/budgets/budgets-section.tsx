import { useState } from 'preact/hooks';
import type { BudgetUsage } from '../api/types.ts';
import { refreshEvery, useQuery } from '../data/use-query.ts';
import { Button } from '../elements/inputs/button.tsx';
import { useSession } from '../session/session.ts';
import { BudgetLines } from './budget-lines.tsx';
import { EditBudgets } from './edit-budgets.tsx';

interface Props {
  readonly userId: string;
  readonly budgets: readonly BudgetUsage[];
  /** Called when the editor has closed, after a change or without one. */
  readonly onClose: () => void;
}

/** The budgets of an account; nothing where it has none and this session may set none. */
export function BudgetsSection({ userId, budgets, onClose }: Props) {
  const { api, scopes, has_budgets } = useSession();
  const [editing, setEditing] = useState(false);
  const mayEdit = scopes.includes('admin') && !has_budgets;
  if (budgets.length === 0 && !mayEdit) return null;
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
          title={`Budgets of the account ${userId}`}
          of="account"
          budgets={budgets}
          save={(changed) => api.updateUserBudgets(userId, changed)}
          onClose={() => {
            setEditing(false);
            onClose();
          }}
        />
      )}
    </section>
  );
}

/** The same for the account of this session. */
export function BudgetsCard() {
  const { api, user_id } = useSession();
  const query = useQuery((signal) => api.listBudgets({ signal }), { key: 'budgets', every: () => refreshEvery });
  if (!query.data) return null;
  return <BudgetsSection userId={user_id} budgets={query.data.data} onClose={query.reload} />;
}
