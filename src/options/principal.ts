import type { Budget } from './budgets.ts';

/**
 * What an API key may be used for. No scope includes another. `x-scope` in openapi.yaml says which one an operation needs.
 * `models`: model calls and what they cost. `webhooks`: the account's webhooks and events. `keys`: its API keys.
 * `events:publish`: events and payments of any account, for the services of the operator. `admin`: acts for any account,
 * with its keys, budgets and credits.
 */
export const scopes = Object.freeze(['models', 'webhooks', 'events:publish', 'keys', 'admin'] as const);

export type Scope = (typeof scopes)[number];

/** What the owner of an account may do: everything that concerns only that account. */
export const accountScopes: readonly Scope[] = Object.freeze(['models', 'webhooks', 'keys'] as const);

/** Who makes a request. */
export interface Principal {
  /** The account; everything that is stored belongs to one. */
  readonly userId: string;
  /** The API key used, `key_…`; absent where the host authenticates by other means. */
  readonly keyId?: string;
  /** What it may do. @default `models`, `webhooks` and `keys`, never what reaches other accounts */
  readonly scopes?: readonly Scope[];
  /** The only models it may call, as callers name them. @default any */
  readonly models?: readonly string[];
  /** The most that its key may use; needs `keyId`. @default no budgets */
  readonly budgets?: readonly Budget[];
  /** The most that its account may use. @default what is set with `gateway.budgets` */
  readonly accountBudgets?: readonly Budget[];
  /** When its key expires. @default never */
  readonly expiresAt?: Date;
}
