import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../../errors.ts';
import { isStorableId } from '../../ids.ts';
import { toBudgets } from '../../options/budgets.ts';
import { accountScopes, type Principal, type Scope, scopes } from '../principal.ts';

/** Says who makes a request; `null` if that is not known. */
export type Authenticate = (
  req: IncomingMessage,
  isModelCall?: boolean,
) => Principal | null | Promise<Principal | null>;

function areBudgets(list: unknown): boolean {
  try {
    return toBudgets(list).length >= 0;
  } catch {
    return false;
  }
}

const budgetRule = [
  (list: unknown) => list === undefined || areBudgets(list),
  "must be a list of budgets such as { period: 'month', tokens: 1_000_000 }, or left out",
] as const;

/** What each field of a principal must be, in code and in words. */
const rules: {
  readonly [Name in keyof Required<Principal>]: readonly [is: (value: unknown) => boolean, must: string];
} = {
  userId: [
    isStorableId,
    'must be a string of 1 to 256 characters; give String(user.id), and null instead of a principal when no user is signed in',
  ],
  keyId: [(id) => id === undefined || isStorableId(id), 'must be a string of 1 to 256 characters, or left out'],
  scopes: [
    (list) => list === undefined || (Array.isArray(list) && list.every((scope) => scopes.includes(scope))),
    `must be a list of ${scopes.join(', ')}, or left out`,
  ],
  models: [
    (list) => list === undefined || (Array.isArray(list) && list.every((model) => model && typeof model === 'string')),
    "must be a list of models' names, or left out",
  ],
  budgets: budgetRule,
  accountBudgets: budgetRule,
  expiresAt: [
    (date) => date === undefined || (date instanceof Date && !Number.isNaN(date.getTime())),
    'must be a valid Date, or left out',
  ],
};

/** The kind of a value, without the value itself. */
function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return 'this list';
  return typeof value === 'object' ? 'this object' : `this ${typeof value}`;
}

type Fields = Record<string, unknown>;

/** A copy: what the host has cannot change it during the request. */
function copied(given: object): Fields {
  const fields: Fields = { ...given };
  for (const name of Object.keys(rules)) {
    const value: unknown = Reflect.get(given, name);
    if (value !== undefined) fields[name] = Array.isArray(value) ? [...value] : value;
  }
  return fields;
}

function checkPrincipal(fields: Fields, option: string): asserts fields is Fields & Principal {
  for (const [name, [is, must]] of Object.entries(rules)) {
    if (is(fields[name])) continue;
    throw new TypeError(`the option ${option} gave a principal whose ${name} ${must}, not ${kindOf(fields[name])}`);
  }
}

/**
 * Copies and checks the principal that a host returns.
 * @throws TypeError that names the option, the field and the fix
 */
function toPrincipal(given: unknown, option: string): Principal | null {
  if (given === null || given === undefined || given === false) return null;
  if (typeof given !== 'object') {
    throw new TypeError(
      `the option ${option} must give { userId }, or null if no user is signed in, not ${kindOf(given)}`,
    );
  }
  const principal = copied(given);
  checkPrincipal(principal, option);
  return principal;
}

/** Checks what a host's own function returns as a principal. */
export function checkedAuthenticate(option: string, authenticate: Authenticate): Authenticate {
  return async (req) => toPrincipal(await authenticate(req), option);
}

/**
 * Checks that a principal has a scope.
 * @throws GatewayError `insufficient_scope`, naming the scope, also in `www-authenticate` (RFC 6750, section 3.1)
 */
export function requireScope({ scopes = accountScopes }: Principal, scope: Scope): void {
  if (scopes.includes(scope)) return;
  throw new GatewayError('insufficient_scope', `This needs an API key with the scope ${scope}`, {
    headers: { 'www-authenticate': `Bearer error="insufficient_scope", scope="${scope}"` },
  });
}
