import type { ApiKey } from '../api/types.ts';
import { BudgetLines } from '../budgets/budget-lines.tsx';
import { Badge, Tag } from '../elements/badge.tsx';
import { Button } from '../elements/inputs/button.tsx';
import { type Column, Table } from '../elements/table.tsx';
import { Ago } from '../elements/time.tsx';

function statusOf({ revoked_at, expires_at }: ApiKey) {
  if (revoked_at) return { shape: 'stopped', words: 'Revoked' } as const;
  if (expires_at && Date.parse(expires_at) <= Date.now()) return { shape: 'stopped', words: 'Expired' } as const;
  return { shape: 'good', words: 'Good' } as const;
}

const agoOrNever = (at: string | null) => (at ? <Ago at={at} /> : <span class="muted">Never</span>);

const columns: readonly Column<ApiKey>[] = [
  {
    head: 'State',
    cell: (key) => {
      const { shape, words } = statusOf(key);
      return <Badge shape={shape}>{words}</Badge>;
    },
  },
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
  {
    head: 'Good for',
    class: 'cell-wide',
    cell: ({ scopes }) => (
      <span class="tags">
        {scopes.map((scope) => (
          <Tag key={scope}>{scope}</Tag>
        ))}
      </span>
    ),
  },
  { head: 'Budgets', name: 'Budgets', cell: ({ budgets }) => <BudgetLines budgets={budgets} /> },
  { head: 'Last used', name: 'Used', class: 'numbers', cell: ({ last_used_at: at }) => agoOrNever(at) },
  { head: 'Ends', name: 'Ends', class: 'numbers', cell: ({ expires_at: at }) => agoOrNever(at) },
  { head: 'Created', name: 'Created', class: 'numbers', cell: ({ created_at: at }) => <Ago at={at} /> },
];

interface Props {
  readonly keys: readonly ApiKey[];
  /** Whether this session may change or revoke a key. */
  readonly mayControl: (key: ApiKey) => boolean;
  /** Absent where it may change no budgets. */
  readonly onEdit: ((key: ApiKey) => void) | undefined;
  readonly onRevoke: (key: ApiKey) => void;
}

/** The keys, each with what this session may do with it. */
export function KeyTable({ keys, mayControl, onEdit, onRevoke }: Props) {
  const actions: Column<ApiKey> = {
    head: <span class="visually-hidden">Actions</span>,
    class: 'cell-end',
    cell: (key) =>
      statusOf(key).words === 'Good' &&
      mayControl(key) && (
        <span class="row-actions">
          {onEdit && (
            <Button label={`Edit the budgets of ${key.name || key.id}`} onClick={() => onEdit(key)}>
              Edit
            </Button>
          )}
          <Button kind="danger" label={`Revoke ${key.name || key.id}`} onClick={() => onRevoke(key)}>
            Revoke
          </Button>
        </span>
      ),
  };
  return <Table kind="keys" caption="API keys" columns={[...columns, actions]} rows={keys} keyOf={({ id }) => id} />;
}
