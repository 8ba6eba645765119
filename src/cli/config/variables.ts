import { accountVariables } from './account-variables.ts';
import { serverVariables } from './server-variables.ts';
import type { Variable } from './variable.ts';
import { webhookVariables } from './webhook-variables.ts';

/** Every environment variable the stand-alone gateway reads, in the order they are shown. */
export const variables = {
  ...serverVariables,
  ...webhookVariables,
  ...accountVariables,
} satisfies Readonly<Record<string, Variable<unknown>>>;

export type VariableName = keyof typeof variables;

/** What the variables that are set say. */
export type Settings = {
  readonly [Name in VariableName]?: (typeof variables)[Name] extends Variable<infer T> ? T : never;
};
