import { useEffect } from 'preact/hooks';
import { useRead } from '../data/query.ts';
import { href, type Route } from '../data/route.ts';
import { useSession } from '../data/session.ts';
import type { SearchResult, Session } from '../data/types.ts';
import { Listed, rowNames } from '../elements/table.tsx';
import { Time } from '../elements/time.tsx';
import { Card, Heading, Notice } from '../elements/view.tsx';
import { addressOf, missingScope } from '../shell/views.ts';

/** What has an id, whosever it is; opened at once where it is only one thing. */
export function FindView({ id }: { id: string }) {
  const session = useSession();
  const query = useRead('/v1/admin/search', { query: { id } });
  const [found, ...others] = query.data?.data ?? [];
  const only = found && others.length === 0 ? resultAddress(found, session) : undefined;
  useEffect(() => {
    // going back leads to where the search began
    if (only) window.location.replace(only);
  }, [only]);
  return (
    <>
      <Heading title="Find by id" />
      <Card label="Found">
        <Listed
          query={query}
          empty={`Nothing has the id ${id}`}
          list={{
            kind: 'found',
            caption: 'What has this id',
            keyOf: (row) => `${row.type} ${row.id} ${row.user_id}`,
            columns: [
              rowNames<SearchResult>('What', (row) => (
                <a class="row-link" href={resultAddress(row, session)}>
                  {typeName(row.type) ?? row.type}
                </a>
              )),
              { head: 'Id', name: true, cell: (row) => <code>{row.id}</code> },
              { head: 'Account', name: true, cell: ({ user_id }) => <code>{user_id}</code> },
            ],
          }}
        />
      </Card>
    </>
  );
}

/** Where something is shown: in its own view if it belongs to this session's account, else with its account. */
function resultAddress(found: SearchResult, { user_id, scopes }: Session): string {
  const { type, id, created_at } = found;
  if (type === 'account') return href(['accounts', id]);
  const own = found.user_id === user_id ? addressOf(id) : undefined;
  const view = own?.split('/')[1];
  if (own && view && !missingScope(view, scopes)) return own;
  return href(['accounts', found.user_id], { found: type, id, at: created_at ?? undefined });
}

const kinds: Readonly<Record<SearchResult['type'], string>> = {
  account: 'Account',
  api_key: 'API key',
  webhook: 'Webhook',
  event: 'Event',
  delivery: 'Delivery',
  recovery: 'Recovery',
  usage_record: 'Usage record',
  payment: 'Payment',
  stored_object: 'Stored object',
};

/** What a type of found things is called; `undefined` for a text that is no such type. */
function typeName(type: string): string | undefined {
  return Object.hasOwn(kinds, type) ? kinds[type as SearchResult['type']] : undefined;
}

/** What a search by id found in this account. */
export function FoundNotice({ route: { query } }: { route: Route }) {
  const { found = '', id, at = '' } = query;
  const kind = typeName(found);
  if (!kind || !id) return null;
  return (
    <Notice>
      {kind} <code>{id}</code> belongs to this account.
      {!Number.isNaN(Date.parse(at)) && (
        <>
          {' '}
          Created <Time at={at} />.
        </>
      )}
    </Notice>
  );
}
