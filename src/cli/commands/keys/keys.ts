import { dataOf, type Schemas } from '../../client/api.ts';
import type { CommandContext } from '../../client/context.ts';
import { gather } from '../../client/pages.ts';
import { localTime, relative } from '../../terminal/moments.ts';
import type { Paint } from '../../terminal/paint.ts';
import { type Cell, type Column, tableLines } from '../../terminal/table.ts';
import { budgetsText } from '../accounts/budget-option.ts';

type Key = Schemas['ApiKey'];

function stateOf({ revoked_at: revoked, expires_at: expires }: Key, now: number): Cell {
  if (revoked) return { text: `revoked ${relative(revoked, now)}`, style: 'dim' };
  if (!expires) return { text: 'active', style: 'green' };
  if (Date.parse(expires) <= now) return { text: `ended ${relative(expires, now)}`, style: 'dim' };
  return { text: `ends ${relative(expires, now)}`, style: 'yellow' };
}

function columns(now: number): readonly Column<Key>[] {
  return [
    { header: 'ID', cell: ({ id }) => id },
    { header: 'CREATED', cell: ({ created_at: created }) => localTime(created) },
    { header: 'LAST USED', cell: ({ last_used_at: used }) => (used ? relative(used, now) : 'never') },
    { header: 'STATE', cell: (key) => stateOf(key, now) },
    { header: 'SCOPES', cell: ({ scopes }) => scopes.join(',') },
    { header: 'MODELS', cell: ({ models }) => models?.join(',') ?? 'any' },
    { header: 'BUDGETS', cell: ({ budgets }) => budgetsText(budgets) },
    { header: 'NAME', cell: ({ name }) => name },
  ];
}

/** Keys as a person reads them. */
export function keyLines({ data }: { data: readonly Key[] }, paint: Paint, now: number): string[] {
  return data.length > 0 ? tableLines(columns(now), data, paint) : ['No keys.'];
}

/** A new key; `API key:` has its own line, as the start prints it. */
export function newKeyLines({ id, key }: { id: string; key: string }): string[] {
  return [`Key id: ${id}`, `API key: ${key}`];
}

/** A changed key. */
export function updatedLines({ id, budgets }: Key): string[] {
  return [`Updated ${id}; its budgets: ${budgetsText(budgets)}`];
}

/** @param user whose key; the caller's account by default. Another's needs the scope `admin`. */
export async function createKey(
  { api, show }: CommandContext,
  body: Schemas['ApiKeyCreate'],
  user?: string,
): Promise<void> {
  const created =
    user === undefined
      ? api.POST('/v1/api_keys', { body })
      : api.POST('/v1/users/{user_id}/api_keys', { params: { path: { user_id: user } }, body });
  show(await dataOf<Schemas['NewApiKey']>(created), newKeyLines);
}

/** @param user whose keys; those of the caller's account by default */
export async function listKeys({ api, show }: CommandContext, user?: string): Promise<void> {
  const all = await gather<Key>(Number.POSITIVE_INFINITY, (query) =>
    dataOf<Schemas['ApiKeyList']>(
      user === undefined
        ? api.GET('/v1/api_keys', { params: { query } })
        : api.GET('/v1/users/{user_id}/api_keys', { params: { path: { user_id: user }, query } }),
    ),
  );
  show(all, keyLines);
}

/** @param user whose key; that of the caller's account by default */
export async function updateKey(
  { api, show }: CommandContext,
  id: string,
  body: Schemas['ApiKeyUpdate'],
  user?: string,
): Promise<void> {
  const updated =
    user === undefined
      ? api.PATCH('/v1/api_keys/{id}', { params: { path: { id } }, body })
      : api.PATCH('/v1/users/{user_id}/api_keys/{id}', { params: { path: { user_id: user, id } }, body });
  show(await dataOf<Schemas['ApiKey']>(updated), updatedLines);
}

/** @param user whose key; that of the caller's account by default */
export async function revokeKey({ api, show }: CommandContext, id: string, user?: string): Promise<void> {
  const revoked =
    user === undefined
      ? api.DELETE('/v1/api_keys/{id}', { params: { path: { id } } })
      : api.DELETE('/v1/users/{user_id}/api_keys/{id}', { params: { path: { user_id: user, id } } });
  show(await dataOf<Schemas['ApiKeyDeleted']>(revoked), (body) => [`Revoked ${body.id}`]);
}
