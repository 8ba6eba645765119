import type { ComponentChildren } from 'preact';
import { useSession } from '../data/session.ts';
import type { ApiKey, Budget } from '../data/types.ts';
import { type Status, StatusBadge, Tags } from '../elements/badge.tsx';
import { Button } from '../elements/button.tsx';
import { FormDialog } from '../elements/form.tsx';
import { type Column, type List, numbers } from '../elements/table.tsx';
import { Ago, AgoOr } from '../elements/time.tsx';
import { useDialog } from '../elements/use-dialog.ts';
import { BudgetLines, EditBudgets } from './budgets.tsx';

interface Props {
  /** Whether this session may change or revoke a key. */
  readonly mayControl: (key: ApiKey) => boolean;
  readonly update: (id: string, budgets: Budget[]) => Promise<unknown>;
  readonly revoke: (id: string) => Promise<unknown>;
  /** Called when a dialog has closed, after a change or without one. */
  readonly onClose: () => void;
  readonly children: (list: List<ApiKey>) => ComponentChildren;
}

/** A list of keys, each with what this session may do with it, and the dialogs that change and revoke them. */
export function EditableKeys({ mayControl, update, revoke, onClose, children }: Props) {
  const { has_budgets } = useSession();
  const [revokeDialog, openRevoke] = useDialog<ApiKey>(
    (close, apiKey) => <RevokeKey apiKey={apiKey} revoke={revoke} onClose={close} />,
    onClose,
  );
  const [editDialog, openEdit] = useDialog<ApiKey>(
    (close, apiKey) => (
      <EditBudgets
        title={`Budgets of ${nameOf(apiKey)}`}
        of="key"
        budgets={apiKey.budgets}
        save={(budgets) => update(apiKey.id, budgets)}
        onClose={close}
      />
    ),
    onClose,
  );
  const actions: Column<ApiKey> = {
    head: <span class="visually-hidden">Actions</span>,
    class: 'cell-end',
    cell: (apiKey) =>
      keyStatus(apiKey).shape === 'good' &&
      mayControl(apiKey) && (
        <span class="wrap end">
          {!has_budgets && (
            <Button label={`Edit the budgets of ${nameOf(apiKey)}`} onClick={() => openEdit(apiKey)}>
              Edit
            </Button>
          )}
          <Button kind="danger" label={`Revoke ${nameOf(apiKey)}`} onClick={() => openRevoke(apiKey)}>
            Revoke
          </Button>
        </span>
      ),
  };
  return (
    <>
      {children({ kind: 'keys', caption: 'API keys', keyOf: ({ id }) => id, columns: [...columns, actions] })}
      {revokeDialog}
      {editDialog}
    </>
  );
}

const nameOf = ({ id, name }: ApiKey) => name || id;

const columns: readonly Column<ApiKey>[] = [
  { head: 'State', cell: (key) => <StatusBadge status={keyStatus(key)} /> },
  {
    head: 'Name',
    class: 'cell-main',
    cell: ({ id, name }) => (
      <>
        <b>{name || 'Unnamed'}</b>
        <code class="under">{id}</code>
      </>
    ),
  },
  { head: 'Good for', class: 'cell-wide', cell: ({ scopes }) => <Tags of={scopes} /> },
  { head: 'Budgets', name: true, cell: ({ budgets }) => <BudgetLines budgets={budgets} /> },
  numbers('Last used', ({ last_used_at: at }) => <AgoOr at={at} />, 'Used'),
  numbers('Ends', ({ expires_at: at }) => <AgoOr at={at} />),
  numbers('Created', ({ created_at: at }) => <Ago at={at} />),
];

export function keyStatus({ revoked_at, expires_at }: ApiKey): Status {
  if (revoked_at) return { shape: 'stopped', words: 'Revoked' };
  if (expires_at && Date.parse(expires_at) <= Date.now()) return { shape: 'stopped', words: 'Expired' };
  return { shape: 'good', words: 'Good' };
}

function RevokeKey({ apiKey, revoke, onClose }: Pick<Props, 'revoke' | 'onClose'> & { readonly apiKey: ApiKey }) {
  return (
    <FormDialog
      danger
      title="Revoke the key?"
      submit="Revoke key"
      onSubmit={() => revoke(apiKey.id)}
      done="The key has been revoked"
      onClose={onClose}
    >
      <p>
        Whatever uses <b>{nameOf(apiKey)}</b> is refused from now on. This cannot be undone.
      </p>
    </FormDialog>
  );
}
