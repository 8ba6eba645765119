import type { ApiKey, Session } from '../api/types.ts';

/** What concerns one account alone. Keys that reach other accounts are made with the operator's own tools. */
const accountScopes = ['models', 'webhooks', 'keys'] as const;

export type GrantableScope = (typeof accountScopes)[number];

/** The scopes that the API lets this session give to a new key, of those that customers have. */
export function grantableScopes({ scopes, has_budgets }: Session): readonly GrantableScope[] {
  return accountScopes.filter((scope) => scopes.includes(scope) && !(has_budgets && scope === 'models'));
}

/** Whether the API lets this session change or revoke a key: not one that may do more, or call more, than itself. */
export function mayControl({ scopes, models }: Session, key: ApiKey): boolean {
  const hasScopes = key.scopes.every((scope) => scopes.includes(scope));
  return hasScopes && (!models || key.models?.every((model) => models.includes(model)) === true);
}
