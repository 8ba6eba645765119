import type { Principal, Scope } from '../http/principal.ts';
import type { Budget, BudgetUsage } from '../options/budgets.ts';
import type { KeyRecord } from './authentication/key-cache.ts';
import type { KeyDocument } from './model.ts';

/** An API key, without its text. */
export interface ApiKey {
  /** `key_…` */
  readonly id: string;
  readonly userId: string;
  readonly name: string;
  /** What it may be used for. */
  readonly scopes: readonly Scope[];
  /** The only models it may call, as callers name them; `null` for any. */
  readonly models: readonly string[] | null;
  /** The most that it may use, and what it has used of it. */
  readonly budgets: readonly BudgetUsage[];
  readonly createdAt: Date;
  /** `null` for never. */
  readonly expiresAt: Date | null;
  /** When it was last used, up to a minute late; `null` until then. */
  readonly lastUsedAt: Date | null;
  readonly revokedAt: Date | null;
}

/** A new key. `key` is shown only this once, because only its digest is stored. */
export interface NewApiKey extends Omit<ApiKey, 'revokedAt' | 'lastUsedAt'> {
  readonly key: string;
}

/** The input for a new key. */
export interface ApiKeyInput {
  readonly userId: string;
  /** What its owner calls it, 100 characters at most. @default '' */
  readonly name?: string;
  /** @default `models`, `webhooks` and `keys`: what an account's owner may do */
  readonly scopes?: readonly Scope[];
  /** When it stops working, by the database's clock. @default never */
  readonly expiresAt?: Date;
  /** The only models it may call, as callers name them: 1 to 100. @default any */
  readonly models?: readonly string[];
  /** The most that it may use: one budget a period. @default no budgets */
  readonly budgets?: readonly Budget[];
}

/** What changes of a key. */
export interface ApiKeyPatch {
  /** Its budgets from now on; an empty list removes them. */
  readonly budgets: readonly Budget[];
}

function toPrincipal(
  { _id, userId, scopes, models, budgets = [], expiresAt }: KeyDocument,
  accountBudgets: readonly Budget[],
): Principal {
  return {
    userId,
    keyId: _id,
    scopes,
    ...(models && { models }),
    ...(budgets.length > 0 && { budgets }),
    ...(accountBudgets.length > 0 && { accountBudgets }),
    ...(expiresAt && { expiresAt }),
  };
}

/**
 * @param good whether the key may be used, by the database's clock
 * @param accountBudgets those of its account
 */
export function toRecord(key: KeyDocument, good: boolean, accountBudgets: readonly Budget[] = []): KeyRecord {
  return { digest: Buffer.from(key.hash, 'hex'), principal: toPrincipal(key, accountBudgets), good };
}
