import { ApiError } from '../api/error.ts';
import type { Api } from '../api/operations.ts';
import type { ApiKey } from '../api/types.ts';
import { BudgetLines } from '../budgets/budget-lines.tsx';
import { useQuery } from '../data/use-query.ts';
import { Tag } from '../elements/badge.tsx';
import { Facts } from '../elements/facts.tsx';
import { Id } from '../elements/inputs/copy.tsx';
import { Loaded } from '../elements/states.tsx';
import { Time } from '../elements/time.tsx';
import { href } from '../routing/route.ts';
import { useApi } from '../session/session.ts';
import { Heading } from '../shell/heading.tsx';

const up = { name: 'API keys', href: href(['keys']) };

/** Reads the list page by page: the API has no operation for one key. */
async function findKey(api: Api, id: string, signal: AbortSignal): Promise<ApiKey> {
  let after: string | undefined;
  for (;;) {
    const { data, has_more } = await api.listApiKeys({ limit: 100, after }, { signal });
    const apiKey = data.find((key) => key.id === id);
    if (apiKey) return apiKey;
    after = data.at(-1)?.id;
    if (has_more && after) continue;
    throw new ApiError(`No API key ${id} is in this account; the view API keys lists those that are`, {
      status: 404,
      code: 'api_key_not_found',
    });
  }
}

function Opened({ apiKey }: { apiKey: ApiKey }) {
  const { id, scopes, models, budgets, created_at, expires_at, last_used_at, revoked_at } = apiKey;
  const timeOr = (at: string | null, otherwise: string) => (at ? <Time at={at} /> : otherwise);
  return (
    <Facts
      wide={['Scopes', 'Models', 'Budgets']}
      facts={[
        ['Key id', <Id id={id} what="key id" />],
        ['Created', <Time at={created_at} />],
        ['Last used', timeOr(last_used_at, 'Never')],
        ['Ends', timeOr(expires_at, 'Never')],
        ['Revoked', timeOr(revoked_at, 'No')],
        [
          'Scopes',
          <span class="tags">
            {scopes.map((scope) => (
              <Tag key={scope}>{scope}</Tag>
            ))}
          </span>,
        ],
        ['Models', models?.join(', ') || 'Any'],
        ['Budgets', <BudgetLines budgets={budgets} />],
      ]}
    />
  );
}

/** One API key, as it is found by its id. */
export function KeyView({ id }: { id: string }) {
  const api = useApi();
  const query = useQuery((signal) => findKey(api, id, signal), { key: id });
  return (
    <>
      <Heading title={query.data?.name || 'API key'} up={up} />
      <Loaded query={query} lines={5}>
        {(apiKey) => <Opened apiKey={apiKey} />}
      </Loaded>
    </>
  );
}
