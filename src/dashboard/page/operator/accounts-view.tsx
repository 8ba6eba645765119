import { BudgetsSection } from '../account/budgets.tsx';
import { EditableKeys } from '../account/editable-keys.tsx';
import { StorageTotals } from '../account/storage-view.tsx';
import { refreshEvery, useRead } from '../data/query.ts';
import { href, type Route } from '../data/route.ts';
import { useApi } from '../data/session.ts';
import type { AccountDetails, AccountSummary, RateLimits } from '../data/types.ts';
import { Badge } from '../elements/badge.tsx';
import { Filters, TextFilter } from '../elements/filters.tsx';
import { amount, count } from '../elements/format.ts';
import { Loaded } from '../elements/states.tsx';
import { type Column, firstAndNext, type List, Listed, None, numbers, rowNames, Table } from '../elements/table.tsx';
import { Card, Facts, Heading } from '../elements/view.tsx';
import { AccountLink, webhookHealth } from './failing-webhooks-view.tsx';
import { FoundNotice } from './find-view.tsx';
import { refusedCodes } from './refusals-view.tsx';

/** Every account that has API keys, webhooks or usage of this month. */
export function AccountsView({ route }: { route: Route }) {
  const { prefix, after } = route.query;
  const query = useRead('/v1/admin/accounts', { query: { limit: 50, after, prefix } });
  const hasCredits = query.data?.data.some(({ credits_remaining }) => credits_remaining !== null);
  return (
    <>
      <Heading title="Accounts" />
      <Filters>
        <TextFilter route={route} name="prefix" label="Id begins with" />
      </Filters>
      <Card
        id="accounts"
        title="By id"
        aside={<span class="muted small">Requests, tokens and cost are of this month, UTC</span>}
      >
        <Listed
          query={query}
          list={{ ...accounts, columns: [...accounts.columns, ...(hasCredits ? creditColumns : [])] }}
          empty={prefix ? 'No account has such an id' : 'No accounts yet'}
          pages={{ route, names: firstAndNext }}
        />
      </Card>
    </>
  );
}

const accounts: List<AccountSummary> = {
  kind: 'accounts',
  caption: 'Accounts, by id',
  keyOf: ({ user_id }) => user_id,
  columns: [
    rowNames('Account', AccountLink),
    numbers('Working API keys', ({ api_keys }) => count(api_keys.working)),
    numbers('Webhooks', WebhookCounts),
    numbers('Requests', ({ usage }) => count(usage?.requests ?? 0)),
    numbers('Tokens', ({ usage }) => count((usage?.input_tokens ?? 0) + (usage?.output_tokens ?? 0))),
  ],
};

function WebhookCounts({ webhooks: { total, failing, disabled } }: AccountSummary) {
  return (
    <>
      {count(total)} {failing > 0 && <Badge shape="bad">{`${count(failing)} failing`}</Badge>}{' '}
      {disabled > 0 && <Badge shape="stopped">{`${count(disabled)} disabled`}</Badge>}
    </>
  );
}

/** Shown where the gateway has credits. */
const creditColumns: readonly Column<AccountSummary>[] = [
  numbers('Cost', ({ usage }) => amount(usage?.credits ?? 0)),
  numbers('Credits left', ({ credits_remaining: left }) => (left === null ? <None /> : amount(left))),
];

/** One account, with what the operator may change of it. */
export function AccountView({ userId, route }: { userId: string; route: Route }) {
  const query = useRead('/v1/admin/accounts/{user_id}', { path: { user_id: userId } }, refreshEvery);
  return (
    <>
      <Heading title={userId} up="accounts" />
      <FoundNotice route={route} />
      <Loaded query={query} lines={6}>
        {(details) => (
          <>
            <AccountFacts details={details} />
            {details.budgets && <BudgetsSection userId={userId} budgets={details.budgets} onClose={query.reload} />}
            <Storage userId={userId} />
            <Keys details={details} onClose={query.reload} />
            <Card id="webhooks" title="Webhooks">
              <Table {...webhookHealth} rows={details.webhooks} empty="No webhooks" />
            </Card>
            <Card
              id="refused"
              title="Refused in the last 24 hours"
              aside={details.refusals.length > 0 && <a href={href(['refusals'], { user: userId })}>When</a>}
            >
              <Table {...refusedCodes} rows={details.refusals} empty="Nothing was refused" />
            </Card>
          </>
        )}
      </Loaded>
    </>
  );
}

/** How much upstreams keep for an account; nothing where that is nothing. */
function Storage({ userId }: { userId: string }) {
  const params = { path: { user_id: userId }, query: { limit: 1 } };
  const query = useRead('/v1/users/{user_id}/stored_objects', params, refreshEvery);
  const totals = query.data?.totals ?? [];
  if (totals.length === 0) return null;
  return (
    <Card text id="storage" title="Storage">
      <StorageTotals totals={totals} />
    </Card>
  );
}

/** What an account used this month, and what limits it. */
function AccountFacts({ details }: { details: AccountDetails }) {
  const { account, credits, rate_limits } = details;
  const { usage } = account;
  const used =
    usage &&
    ([
      ['Requests this month', count(usage.requests)],
      ['Tokens in this month', count(usage.input_tokens)],
      ['Tokens out this month', count(usage.output_tokens)],
      ['Cost this month', `${amount(usage.credits ?? 0)} credits`],
    ] as const);
  return (
    <Facts
      facts={[
        ...(used ?? []),
        ['Credits', <Credits credits={credits} />],
        ['Rate limit of the account', limitWords(rate_limits.per_user, rate_limits.per_user_is_unknown)],
        ['Rate limit of each key', limitWords(rate_limits.per_key, rate_limits.per_key_is_unknown)],
      ]}
    />
  );
}

function Credits({ credits }: { credits: AccountDetails['credits'] }) {
  if (!credits) return <span class="muted">The gateway keeps none</span>;
  const { credits_remaining, low_threshold } = credits;
  return (
    <>
      {amount(credits_remaining)} left {credits_remaining < low_threshold && <Badge shape="bad">Low</Badge>}
    </>
  );
}

/** `600 requests, 100,000 tokens a minute` */
function limitWords(limits: RateLimits | null, isUnknown: boolean): string {
  if (isUnknown) return 'A function of the host decides';
  if (!limits) return 'None';
  const { requests_per_minute: requests, tokens_per_minute: tokens } = limits;
  const parts = [requests !== null && `${count(requests)} requests`, tokens !== null && `${count(tokens)} tokens`];
  const set = parts.filter(Boolean);
  return set.length === 0 ? 'None' : `${set.join(', ')} a minute`;
}

function Keys({ details: { account, api_keys }, onClose }: { details: AccountDetails; onClose: () => void }) {
  const api = useApi();
  const of = (id: string) => ({ path: { user_id: account.user_id, id } });
  return (
    <Card
      id="keys"
      title="API keys"
      aside={api_keys.has_more && <span class="muted small">The first {api_keys.data.length}</span>}
    >
      <EditableKeys
        mayControl={() => true}
        update={(id, budgets) => api.PATCH('/v1/users/{user_id}/api_keys/{id}', { params: of(id), body: { budgets } })}
        revoke={(id) => api.DELETE('/v1/users/{user_id}/api_keys/{id}', { params: of(id) })}
        onClose={onClose}
      >
        {(list) => <Table {...list} rows={api_keys.data} empty="No API keys" />}
      </EditableKeys>
    </Card>
  );
}
