import type { AccountWebhook } from '../api/types.ts';
import { outcomeWords } from '../deliveries/words.ts';
import { Badge } from '../elements/badge.tsx';
import { Scroll } from '../elements/scroll.tsx';
import { type Column, Table } from '../elements/table.tsx';
import { Ago } from '../elements/time.tsx';
import { href } from '../routing/route.ts';
import { splitUrl } from '../webhooks/hosts.ts';
import { statusOf } from '../webhooks/words.ts';

function LastFailure({ health: { last_failure } }: AccountWebhook) {
  if (!last_failure) return <span class="muted">None</span>;
  return (
    <>
      {outcomeWords(last_failure)}, <Ago at={last_failure.at} />
      <span class="muted small explanation">{last_failure.explanation}</span>
    </>
  );
}

const columns: readonly Column<AccountWebhook>[] = [
  {
    head: 'State',
    cell: (webhook) => {
      const { shape, words } = statusOf(webhook);
      return <Badge shape={shape}>{words}</Badge>;
    },
  },
  {
    head: 'URL',
    class: 'cell-main',
    scopes: true,
    cell: ({ url, id }) => {
      const { scheme, host, rest } = splitUrl(url);
      return (
        <>
          <span class="muted">{scheme}</span>
          <b>{host}</b>
          <span class="muted">{rest}</span>
          <code class="under">{id}</code>
        </>
      );
    },
  },
  {
    head: 'Failing since',
    name: 'Failing since',
    class: 'numbers',
    cell: ({ health: { failing_since } }) =>
      failing_since ? <Ago at={failing_since} /> : <span class="muted">–</span>,
  },
  { head: 'Last failure', name: 'Last failure', class: 'cell-wide', cell: LastFailure },
];

const account: Column<AccountWebhook> = {
  head: 'Account',
  name: 'Account',
  cell: ({ user_id }) => (
    <a class="row-link mono" href={href(['accounts', user_id])}>
      {user_id}
    </a>
  ),
};

interface Props {
  readonly webhooks: readonly AccountWebhook[];
  /** Whether they are of several accounts. */
  readonly byAccount?: boolean;
}

/** Webhooks and how they do. */
export function WebhookHealthTable({ webhooks, byAccount }: Props) {
  return (
    <Scroll>
      <Table
        kind="webhooks"
        caption="Webhooks"
        columns={byAccount ? [...columns, account] : columns}
        rows={webhooks}
        keyOf={({ id }) => id}
      />
    </Scroll>
  );
}
