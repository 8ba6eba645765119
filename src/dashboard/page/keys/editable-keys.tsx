import { useState } from 'preact/hooks';
import type { ApiKey, Budget } from '../api/types.ts';
import { EditBudgets } from '../budgets/edit-budgets.tsx';
import { useSession } from '../session/session.ts';
import { KeyTable } from './key-table.tsx';
import { RevokeKey } from './revoke-key.tsx';

interface Props {
  readonly keys: readonly ApiKey[];
  /** Whether this session may change or revoke a key. */
  readonly mayControl: (key: ApiKey) => boolean;
  readonly update: (id: string, budgets: Budget[]) => Promise<unknown>;
  readonly revoke: (id: string) => Promise<unknown>;
  /** Called when a dialog has closed, after a change or without one. */
  readonly onClose: () => void;
}

/** The keys, and the dialogs that change and revoke them. */
export function EditableKeys({ keys, mayControl, update, revoke, onClose }: Props) {
  const { has_budgets } = useSession();
  const [open, setOpen] = useState<{ readonly action: 'edit' | 'revoke'; readonly apiKey: ApiKey }>();
  const close = () => {
    setOpen(undefined);
    onClose();
  };
  return (
    <>
      <KeyTable
        keys={keys}
        mayControl={mayControl}
        onEdit={has_budgets ? undefined : (apiKey) => setOpen({ action: 'edit', apiKey })}
        onRevoke={(apiKey) => setOpen({ action: 'revoke', apiKey })}
      />
      {open?.action === 'revoke' && <RevokeKey apiKey={open.apiKey} revoke={revoke} onClose={close} />}
      {open?.action === 'edit' && (
        <EditBudgets
          title={`Budgets of ${open.apiKey.name || open.apiKey.id}`}
          of="key"
          budgets={open.apiKey.budgets}
          save={(budgets) => update(open.apiKey.id, budgets)}
          onClose={close}
        />
      )}
    </>
  );
}
