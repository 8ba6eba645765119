import type { AccountDetails } from '../api/types.ts';
import { BudgetsSection } from '../budgets/budgets-section.tsx';
import { refreshEvery, useQuery } from '../data/use-query.ts';
import { Empty, Loaded } from '../elements/states.tsx';
import { EditableKeys } from '../keys/editable-keys.tsx';
import { FoundNotice } from '../operator/found-notice.tsx';
import { RefusedCodes } from '../operator/refusals-table.tsx';
import { WebhookHealthTable } from '../operator/webhook-health-table.tsx';
import { href, type Route } from '../routing/route.ts';
import { useApi } from '../session/session.ts';
import { Heading } from '../shell/heading.tsx';
import { AccountFacts } from './account-facts.tsx';

const up = { name: 'Accounts', href: href(['accounts']) };

function Keys({ details: { account, api_keys }, onClose }: { details: AccountDetails; onClose: () => void }) {
  const api = useApi();
  const { user_id } = account;
  return (
    <section class="card" aria-labelledby="keys">
      <div class="card-head">
        <h2 id="keys">API keys</h2>
        {api_keys.has_more && <span class="muted small">The first {api_keys.data.length}</span>}
      </div>
      {api_keys.data.length === 0 ? (
        <Empty title="No API keys" />
      ) : (
        <EditableKeys
          keys={api_keys.data}
          mayControl={() => true}
          update={(id, budgets) => api.updateUserApiKey(user_id, id, budgets)}
          revoke={(id) => api.deleteUserApiKey(user_id, id)}
          onClose={onClose}
        />
      )}
    </section>
  );
}

function Webhooks({ webhooks }: AccountDetails) {
  return (
    <section class="card" aria-labelledby="webhooks">
      <div class="card-head">
        <h2 id="webhooks">Webhooks</h2>
      </div>
      {webhooks.length === 0 ? <Empty title="No webhooks" /> : <WebhookHealthTable webhooks={webhooks} />}
    </section>
  );
}

function Refused({ account, refusals }: AccountDetails) {
  return (
    <section class="card" aria-labelledby="refused">
      <div class="card-head">
        <h2 id="refused">Refused in the last 24 hours</h2>
        {refusals.length > 0 && <a href={href(['refusals'], { user: account.user_id })}>When</a>}
      </div>
      {refusals.length === 0 ? <Empty title="Nothing was refused" /> : <RefusedCodes refusals={refusals} />}
    </section>
  );
}

/** One account, with what the operator may change of it. */
export function AccountView({ userId, route }: { userId: string; route: Route }) {
  const api = useApi();
  const query = useQuery((signal) => api.retrieveAccount(userId, { signal }), {
    key: userId,
    every: () => refreshEvery,
  });
  return (
    <>
      <Heading title={userId} up={up} />
      <FoundNotice route={route} />
      <Loaded query={query} lines={6}>
        {(details) => (
          <>
            <AccountFacts details={details} />
            {details.budgets && <BudgetsSection userId={userId} budgets={details.budgets} onClose={query.reload} />}
            <Keys details={details} onClose={query.reload} />
            <Webhooks {...details} />
            <Refused {...details} />
          </>
        )}
      </Loaded>
    </>
  );
}
