import { refreshEvery, useRead } from '../data/query.ts';
import { href, type Route } from '../data/route.ts';
import type { AccountWebhook } from '../data/types.ts';
import { outcomeWords } from '../deliveries/delivery.tsx';
import { StatusBadge } from '../elements/badge.tsx';
import { Filters, Tabs } from '../elements/filters.tsx';
import { firstAndNext, type List, Listed, numbers, rowNames } from '../elements/table.tsx';
import { Ago, AgoOr } from '../elements/time.tsx';
import { Card, Heading } from '../elements/view.tsx';
import { Url, webhookStatus } from '../webhooks/webhook.tsx';

/** The webhooks of every account that fail, or that were disabled because they did. */
export function FailingWebhooksView({ route }: { route: Route }) {
  const { after } = route.query;
  const state = route.query.state === 'disabled' ? 'disabled' : 'failing';
  const query = useRead('/v1/admin/webhooks', { query: { state, limit: 50, after } }, refreshEvery);
  return (
    <>
      <Heading title="Failing webhooks" />
      <Filters>
        <Tabs
          route={route}
          name="state"
          label="State"
          any="Failing"
          options={[{ value: 'disabled', name: 'Disabled' }]}
        />
      </Filters>
      <Card label="Webhooks">
        <Listed
          query={query}
          list={{
            ...webhookHealth,
            columns: [...webhookHealth.columns, { head: 'Account', name: true, cell: AccountLink }],
          }}
          empty={state === 'failing' ? 'No webhook fails' : 'No webhook is disabled'}
          pages={{ route, names: firstAndNext }}
        />
      </Card>
    </>
  );
}

/** Webhooks and how they do. */
export const webhookHealth: List<AccountWebhook> = {
  kind: 'webhooks',
  caption: 'Webhooks',
  scrolls: true,
  keyOf: ({ id }) => id,
  columns: [
    { head: 'State', cell: (webhook) => <StatusBadge status={webhookStatus(webhook)} /> },
    {
      width: '40%',
      ...rowNames('URL', ({ url, id }) => (
        <>
          <Url url={url} bold />
          <code class="under">{id}</code>
        </>
      )),
    },
    numbers('Failing since', ({ health: { failing_since: at } }) => <AgoOr at={at} never="–" />),
    { head: 'Last failure', name: true, class: 'cell-wide', cell: LastFailure },
  ],
};

function LastFailure({ health: { last_failure } }: AccountWebhook) {
  if (!last_failure) return <span class="muted">None</span>;
  return (
    <>
      {outcomeWords(last_failure)}, <Ago at={last_failure.at} />
      <div class="muted small">{last_failure.explanation}</div>
    </>
  );
}

/** Opens the account of a row. */
export function AccountLink({ user_id }: { readonly user_id: string }) {
  return (
    <a class="row-link mono" href={href(['accounts', user_id])}>
      {user_id}
    </a>
  );
}
