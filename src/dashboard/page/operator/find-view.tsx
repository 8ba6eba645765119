import { useEffect } from 'preact/hooks';
import { useQuery } from '../data/use-query.ts';
import { Empty, Loaded } from '../elements/states.tsx';
import { Table } from '../elements/table.tsx';
import { useApi, useSession } from '../session/session.ts';
import { Heading } from '../shell/heading.tsx';
import { resultAddress, typeName } from './search-result.ts';

/** What has an id, whosever it is; opened at once where it is only one thing. */
export function FindView({ id }: { id: string }) {
  const api = useApi();
  const session = useSession();
  const query = useQuery((signal) => api.searchIds(id, { signal }), { key: id });
  const [found, ...others] = query.data?.data ?? [];
  const only = found && others.length === 0 ? resultAddress(found, session) : undefined;
  useEffect(() => {
    // going back leads to where the search began
    if (only) window.location.replace(only);
  }, [only]);
  return (
    <>
      <Heading title="Find by id" />
      <section class="card" aria-label="Found">
        <Loaded query={query}>
          {({ data }) =>
            data.length === 0 ? (
              <Empty title={`Nothing has the id ${id}`} />
            ) : (
              <Table
                kind="found"
                caption="What has this id"
                columns={[
                  {
                    head: 'What',
                    scopes: true,
                    class: 'cell-main',
                    cell: (row) => (
                      <a class="row-link" href={resultAddress(row, session)}>
                        {typeName(row.type) ?? row.type}
                      </a>
                    ),
                  },
                  { head: 'Id', name: 'Id', cell: (row) => <code>{row.id}</code> },
                  { head: 'Account', name: 'Account', cell: ({ user_id }) => <code>{user_id}</code> },
                ]}
                rows={data}
                keyOf={(row) => `${row.type} ${row.id} ${row.user_id}`}
              />
            )
          }
        </Loaded>
      </section>
    </>
  );
}
