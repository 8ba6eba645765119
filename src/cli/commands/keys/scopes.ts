import { InvalidArgumentError } from 'commander';
import type { Schemas } from '../../client/api.ts';
import { several } from '../../client/flags.ts';

type Scope = Schemas['Scope'];

/** Every scope there is, and whether a key has it when nothing is said. */
const scopes: Readonly<Record<Scope, boolean>> = {
  models: true,
  webhooks: true,
  keys: true,
  'events:publish': false,
  admin: false,
};

export const scopeNames = Object.keys(scopes) as Scope[];

/** What a key may be used for when nothing is said. */
export const usualScopes = scopeNames.filter((name) => scopes[name]);

/** Reads scopes, several with commas or one after another; the first given takes the place of the usual ones. */
export function readScopes(text: string, before: readonly string[]): readonly string[] {
  const names = several(text, before === usualScopes ? [] : before);
  if (names.every((name) => name in scopes)) return names;
  throw new InvalidArgumentError(`It must be some of ${scopeNames.join(', ')}.`);
}
