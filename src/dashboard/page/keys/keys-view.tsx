import { useState } from 'preact/hooks';
import type { ApiKey } from '../api/types.ts';
import { EditBudgets } from '../budgets/edit-budgets.tsx';
import { useQuery } from '../data/use-query.ts';
import { Button } from '../elements/button.tsx';
import { PlusIcon } from '../elements/icons.tsx';
import { Pager } from '../elements/pager.tsx';
import { Empty, Loaded } from '../elements/states.tsx';
import type { Route } from '../routing/route.ts';
import { useApi } from '../session/session.ts';
import { Heading } from '../shell/heading.tsx';
import { CreateKey } from './create-key.tsx';
import { KeyTable } from './key-table.tsx';
import { RevokeKey } from './revoke-key.tsx';

/** The account's API keys. */
export function KeysView({ route }: { route: Route }) {
  const api = useApi();
  const { after } = route.query;
  const query = useQuery((signal) => api.listApiKeys({ limit: 50, after }, { signal }), { key: `keys ${after}` });
  const [open, setOpen] = useState<'create' | { readonly action: 'edit' | 'revoke'; readonly apiKey: ApiKey }>();
  const close = () => {
    setOpen(undefined);
    query.reload();
  };
  return (
    <>
      <Heading
        title="API keys"
        actions={
          <Button kind="primary" onClick={() => setOpen('create')}>
            <PlusIcon />
            Create key
          </Button>
        }
      />
      <section class="card" aria-label="API keys">
        <Loaded query={query}>
          {({ data, has_more }) =>
            data.length === 0 ? (
              <Empty title="No API keys" />
            ) : (
              <>
                <KeyTable
                  keys={data}
                  onEdit={(apiKey) => setOpen({ action: 'edit', apiKey })}
                  onRevoke={(apiKey) => setOpen({ action: 'revoke', apiKey })}
                />
                <Pager route={route} next={has_more ? data.at(-1)?.id : undefined} />
              </>
            )
          }
        </Loaded>
      </section>
      {open === 'create' && <CreateKey onClose={close} />}
      {typeof open === 'object' && open.action === 'revoke' && <RevokeKey apiKey={open.apiKey} onClose={close} />}
      {typeof open === 'object' && open.action === 'edit' && (
        <EditBudgets
          title={`Budgets of ${open.apiKey.name || open.apiKey.id}`}
          of="key"
          budgets={open.apiKey.budgets}
          save={(budgets) => api.updateApiKey(open.apiKey.id, budgets)}
          onClose={close}
        />
      )}
    </>
  );
}
