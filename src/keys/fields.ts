import { refuse } from '../errors.ts';
import { accountScopes, scopes as everyScope, type Scope } from '../http/principal.ts';
import { checkUserId, isStorable } from '../ids.ts';
import { type Budget, toBudgets } from '../options/budgets.ts';
import type { ApiKeyInput } from './api-key.ts';

const nameLimit = 100;
const maxModels = 100;
/** The longest name of a model. Characters. */
const modelNameLimit = 256;

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
  const isDate = expiresAt instanceof Date && !Number.isNaN(expiresAt.getTime());
  if (!isDate || expiresAt.getTime() <= Date.now())
    refuse('invalid_value', 'expires_at', 'must be a time in the future');
}

/** The checked fields of a new key, with all defaults. */
export interface KeyFields {
  readonly userId: string;
  readonly name: string;
  readonly scopes: Scope[];
  readonly models: string[] | null;
  readonly budgets: Budget[];
  readonly expiresAt: Date | null;
}

/** @throws GatewayError `invalid_value`, naming the field as the HTTP API does */
export function toKeyFields({ userId, name = '', scopes = accountScopes, ...input }: ApiKeyInput): KeyFields {
  const { models, budgets = [], expiresAt } = input;
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
