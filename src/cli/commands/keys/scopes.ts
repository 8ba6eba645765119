import { InvalidArgumentError } from 'commander';
import type { Schemas } from '../../client/api.ts';
import { several } from '../../client/flags.ts';

type Scope = Schemas['Scope'];

/** Every scope, and whether a key has it by default. */
const scopes: Readonly<Record<Scope, boolean>> = {
  models: true,
  webhooks: true,
  keys: true,
  'events:publish': false,
  admin: false,
};

export const scopeNames = Object.keys(scopes) as Scope[];

/** The scopes of a key by default. */
export const usualScopes = scopeNames.filter((name) => scopes[name]);

/** Reads scopes, several with commas or one after another; the first one replaces the defaults. */
export function readScopes(text: string, before: readonly string[]): readonly string[] {
  const names = several(text, before === usualScopes ? [] : before);
  if (names.every((name) => name in scopes)) return names;
  throw new InvalidArgumentError(`It must be some of ${scopeNames.join(', ')}.`);
}
