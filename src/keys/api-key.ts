import { isDate } from 'node:util/types';
import { refuse } from '../errors.ts';
import { checkUserId, isStorable, modelNameLimit } from '../ids.ts';
import { type Budget, type BudgetUsage, type KeyBudgets, toBudgets } from '../options/budgets.ts';
import { accountScopes, scopes as everyScope, type Scope } from '../options/principal.ts';
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

const nameLimit = 100;
const maxModels = 100;

function isName(text: unknown, limit: number): text is string {
  return typeof text === 'string' && text.length <= limit && isStorable(text);
}

function checkScopes(scopes: readonly Scope[]): void {
  if (!Array.isArray(scopes) || scopes.length === 0)
    refuse('invalid_value', 'scopes', 'must be a list of one or more scopes');
  scopes.forEach((scope, i) => {
    if (!everyScope.includes(scope)) refuse('invalid_value', `scopes[${i}]`, `must be one of ${everyScope.join(', ')}`);
  });
}

function checkModels(models: readonly string[]): void {
  if (!Array.isArray(models) || models.length === 0 || models.length > maxModels) {
    refuse('invalid_value', 'models', `must be a list of 1 to ${maxModels} models`);
  }
  models.forEach((model, i) => {
    if (!isName(model, modelNameLimit) || model === '') {
      refuse('invalid_value', `models[${i}]`, `must be a string of 1 to ${modelNameLimit} characters`);
    }
  });
}

function checkExpiry(expiresAt: Date): void {
  if (!isDate(expiresAt) || !(expiresAt.getTime() > Date.now()))
    refuse('invalid_value', 'expires_at', 'must be a time in the future');
}

/**
 * The checked fields of a new key, with all defaults.
 * @throws GatewayError `invalid_value`, naming the field as the HTTP API does
 */
export function toKeyFields(given: ApiKeyInput) {
  // what somebody has put on Object.prototype must not make a key for everything
  const own: ApiKeyInput = Object.assign(Object.create(null), given);
  const { userId, name = '', scopes = accountScopes, models, budgets = [], expiresAt } = own;
  checkUserId(userId);
  if (!isName(name, nameLimit)) refuse('invalid_value', 'name', `must be a string of at most ${nameLimit} characters`);
  checkScopes(scopes);
  if (models !== undefined) checkModels(models);
  if (expiresAt !== undefined) checkExpiry(expiresAt);
  return {
    userId,
    name,
    scopes: [...new Set(scopes)],
    models: models ? [...new Set(models)] : null,
    budgets: toBudgets(budgets),
    expiresAt: expiresAt ?? null,
  };
}

/** Of a gateway that does not count. */
export const noBudgets: KeyBudgets = {
  check(budgets) {
    if (budgets.length === 0) return;
    refuse('invalid_value', 'budgets', 'this gateway does not count usage, so it has no budgets; leave them out');
  },
  usage: async () => new Map(),
};

/** Stored keys of one account, with what they have used of their budgets. */
export async function toApiKeys(found: readonly KeyDocument[], { usage }: KeyBudgets): Promise<ApiKey[]> {
  const [first] = found;
  if (!first) return [];
  const used = await usage(
    first.userId,
    found.map(({ _id: id, budgets = [] }) => ({ id, budgets })),
  );
  return found.map(({ _id: id, hash: _, slot: __, ...key }) => ({ id, ...key, budgets: used.get(id) ?? [] }));
}

/** A stored key, with what it has used of its budgets. */
export async function toApiKey(found: KeyDocument, budgets: KeyBudgets): Promise<ApiKey> {
  const [key] = await toApiKeys([found], budgets);
  return key as ApiKey;
}
