import type { AccountSummary } from '../api/types.ts';
import { useQuery } from '../data/use-query.ts';
import { Badge } from '../elements/badge.tsx';
import { TextFilter } from '../elements/inputs/text-filter.tsx';
import { Pager } from '../elements/pager.tsx';
import { Empty, Loaded } from '../elements/states.tsx';
import { type Column, Table } from '../elements/table.tsx';
import { amount, count } from '../format/number.ts';
import { href, type Route } from '../routing/route.ts';
import { useApi } from '../session/session.ts';
import { Heading } from '../shell/heading.tsx';

function Webhooks({ webhooks: { total, failing, disabled } }: AccountSummary) {
  return (
    <>
      {count(total)} {failing > 0 && <Badge shape="bad">{`${count(failing)} failing`}</Badge>}{' '}
      {disabled > 0 && <Badge shape="stopped">{`${count(disabled)} disabled`}</Badge>}
    </>
  );
}

const columns: readonly Column<AccountSummary>[] = [
  {
    head: 'Account',
    class: 'cell-main',
    scopes: true,
    cell: ({ user_id }) => (
      <a class="row-link mono" href={href(['accounts', user_id])}>
        {user_id}
      </a>
    ),
  },
  {
    head: 'Working API keys',
    name: 'Working API keys',
    class: 'numbers',
    cell: ({ api_keys }) => count(api_keys.working),
  },
  { head: 'Webhooks', name: 'Webhooks', class: 'numbers', cell: Webhooks },
  { head: 'Requests', name: 'Requests', class: 'numbers', cell: ({ usage }) => count(usage?.requests ?? 0) },
  {
    head: 'Tokens',
    name: 'Tokens',
    class: 'numbers',
    cell: ({ usage }) => count((usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0)),
  },
];

/** Shown where the gateway has credits. */
const creditColumns: readonly Column<AccountSummary>[] = [
  { head: 'Cost', name: 'Cost', class: 'numbers', cell: ({ usage }) => amount(usage?.credits ?? 0) },
  {
    head: 'Credits left',
    name: 'Credits left',
    class: 'numbers',
    cell: ({ credits_remaining: left }) => (left === null ? <span class="muted">–</span> : amount(left)),
  },
];

/** Every account that has API keys, webhooks or usage of this month. */
export function AccountsView({ route }: { route: Route }) {
  const api = useApi();
  const { prefix, after } = route.query;
  const query = useQuery((signal) => api.listAccounts({ limit: 50, after, prefix }, { signal }), {
    key: `accounts ${prefix} ${after}`,
  });
  return (
    <>
      <Heading title="Accounts" />
      <search class="filters" aria-label="Choose what is shown">
        <TextFilter route={route} name="prefix" label="Id begins with" />
      </search>
      <section class="card" aria-labelledby="accounts">
        <div class="card-head">
          <h2 id="accounts">By id</h2>
          <span class="muted small">Requests, tokens and cost are of this month, UTC</span>
        </div>
        <Loaded query={query}>
          {({ data, has_more }) =>
            data.length === 0 ? (
              <Empty title={prefix ? 'No account has such an id' : 'No accounts yet'} />
            ) : (
              <>
                <Table
                  kind="accounts"
                  caption="Accounts, by id"
                  columns={[
                    ...columns,
                    ...(data.some(({ credits_remaining }) => credits_remaining !== null) ? creditColumns : []),
                  ]}
                  rows={data}
                  keyOf={({ user_id }) => user_id}
                />
                <Pager
                  route={route}
                  next={has_more ? data.at(-1)?.user_id : undefined}
                  names={{ first: 'First', next: 'Next' }}
                />
              </>
            )
          }
        </Loaded>
      </section>
    </>
  );
}
