import { GatewayError } from '../errors.ts';
import { accountScopes, scopes as everyScope, type Scope } from '../http/operation.ts';
import { checkUserId, isId } from '../ids.ts';
import type { ApiKeyInput, KeyPage } from './api-key.ts';

const nameLimit = 100;
const modelLimit = 100;
/** The longest name of a model. Characters. */
const modelNameLimit = 256;

function refuse(param: string, problem: string): never {
  throw new GatewayError('invalid_value', `${param}: ${problem}`, { param });
}

function isStorable(text: unknown, limit: number): text is string {
  return typeof text === 'string' && text.length <= limit && !/[\0\p{Surrogate}]/u.test(text);
}

function checkScopes(scopes: readonly Scope[]): void {
  if (!Array.isArray(scopes) || scopes.length === 0) refuse('scopes', 'must be a list of one or more scopes');
  scopes.forEach((scope, i) => {
    if (!everyScope.includes(scope)) refuse(`scopes[${i}]`, `must be one of ${everyScope.join(', ')}`);
  });
}

function checkModels(models: readonly string[]): void {
  if (!Array.isArray(models) || models.length === 0 || models.length > modelLimit) {
    refuse('models', `must be a list of 1 to ${modelLimit} models`);
  }
  models.forEach((model, i) => {
    if (!isStorable(model, modelNameLimit) || model === '') {
      refuse(`models[${i}]`, `must be a string of 1 to ${modelNameLimit} characters`);
    }
  });
}

function checkExpiry(expiresAt: Date): void {
  const isDate = expiresAt instanceof Date && !Number.isNaN(expiresAt.getTime());
  if (!isDate || expiresAt.getTime() <= Date.now()) refuse('expires_at', 'must be a moment in the future');
}

/** What a key is made of, each of it checked, with every default filled in. */
export interface KeyFields {
  readonly userId: string;
  readonly name: string;
  readonly scopes: Scope[];
  readonly models: string[] | null;
  readonly expiresAt: Date | null;
}

/** @throws GatewayError `invalid_value`, naming the field as the HTTP API does */
export function toKeyFields({ userId, name = '', scopes = accountScopes, models, expiresAt }: ApiKeyInput): KeyFields {
  checkUserId(userId);
  if (!isStorable(name, nameLimit)) refuse('name', `must be a string of at most ${nameLimit} characters`);
  checkScopes(scopes);
  if (models !== undefined) checkModels(models);
  if (expiresAt !== undefined) checkExpiry(expiresAt);
  return {
    userId,
    name,
    scopes: [...new Set(scopes)],
    models: models ? [...new Set(models)] : null,
    expiresAt: expiresAt ?? null,
  };
}

const pageLimit = 100;

/** @throws GatewayError `invalid_value` for a limit outside 1 to 100 or an `after` that is no key's id */
export function toPage({ limit = pageLimit, after }: KeyPage): { limit: number; after: string | undefined } {
  if (!Number.isInteger(limit) || limit < 1 || limit > pageLimit) {
    refuse('limit', `must be a whole number from 1 to ${pageLimit}`);
  }
  if (after !== undefined && !isId('key', after)) refuse('after', 'must be the id of an API key');
  return { limit, after };
}
