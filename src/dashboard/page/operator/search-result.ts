import type { SearchResult, Session } from '../api/types.ts';
import { href } from '../routing/route.ts';
import { addressOf } from '../search/id-address.ts';
import { missingScope } from '../shell/views.ts';

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
export function typeName(type: string): string | undefined {
  return Object.hasOwn(kinds, type) ? kinds[type as SearchResult['type']] : undefined;
}

/** Where something is shown: in its own view if it belongs to this session's account, else with its account. */
export function resultAddress(found: SearchResult, { user_id, scopes }: Session): string {
  const { type, id, created_at } = found;
  if (type === 'account') return href(['accounts', id]);
  const own = found.user_id === user_id ? addressOf(id) : undefined;
  const view = own?.split('/')[1];
  if (own && view && !missingScope(view, scopes)) return own;
  return href(['accounts', found.user_id], { found: type, id, at: created_at ?? undefined });
}
