import { useState } from 'preact/hooks';
import { useQuery } from '../data/use-query.ts';
import { PlusIcon } from '../elements/icons.tsx';
import { Button } from '../elements/inputs/button.tsx';
import { Pager } from '../elements/pager.tsx';
import { Empty, Loaded } from '../elements/states.tsx';
import type { Route } from '../routing/route.ts';
import { useSession } from '../session/session.ts';
import { Heading } from '../shell/heading.tsx';
import { CreateKey } from './create-key.tsx';
import { EditableKeys } from './editable-keys.tsx';
import { mayControl } from './permissions.ts';

/** The account's API keys. */
export function KeysView({ route }: { route: Route }) {
  const session = useSession();
  const { api } = session;
  const { after } = route.query;
  const query = useQuery((signal) => api.listApiKeys({ limit: 50, after }, { signal }), { key: `keys ${after}` });
  const [creating, setCreating] = useState(false);
  return (
    <>
      <Heading
        title="API keys"
        actions={
          <Button kind="primary" onClick={() => setCreating(true)}>
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
                <EditableKeys
                  keys={data}
                  mayControl={(key) => mayControl(session, key)}
                  update={api.updateApiKey}
                  revoke={api.deleteApiKey}
                  onClose={query.reload}
                />
                <Pager route={route} next={has_more ? data.at(-1)?.id : undefined} />
              </>
            )
          }
        </Loaded>
      </section>
      {creating && (
        <CreateKey
          onClose={() => {
            setCreating(false);
            query.reload();
          }}
        />
      )}
    </>
  );
}
