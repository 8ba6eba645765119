// small, typed, maintained; bundled, so no host installs it
import { closestMatch } from 'leven';
import * as z from 'zod';
import { refuseOption } from '../../options/checks.ts';
import { allowedBy, type Parser } from './parsers.ts';
import { accountVariables } from './variables/accounts.ts';
import { serverVariables } from './variables/server.ts';
import { webhookVariables } from './variables/webhooks.ts';

/** One environment variable. Its errors, `--help` and docs/configuration.md come from this. */
interface Variable {
  /** A sentence without its full stop. */
  readonly meaning: string;
  readonly type: Parser;
  /** In words; a text that `type` reads, where {@link settingOf} uses it. */
  readonly default: string;
  readonly example: string;
  /** Whether errors must not repeat the value. */
  readonly secret?: boolean;
}

const table = { ...serverVariables, ...webhookVariables, ...accountVariables };

export type VariableName = keyof typeof table;

/** Every environment variable that the stand-alone gateway reads, in the order they are shown. */
export const variables: Readonly<Record<VariableName, Variable>> = table;

type Types = { readonly [Name in VariableName]: z.ZodOptional<(typeof table)[Name]['type']> };

/** What the variables say that are set. */
const environmentSchema = z.object(
  Object.fromEntries(Object.entries(variables).map(([name, { type }]) => [name, type.optional()])) as Types,
);

/** The values of the variables that are set. */
export type Settings = z.output<typeof environmentSchema>;

/** What a variable says, or its default in the table if it is not set. */
export function settingOf<Name extends VariableName>(settings: Settings, name: Name) {
  type Value = NonNullable<Settings[Name]>;
  return settings[name] ?? (variables[name].type.parse(variables[name].default) as Value);
}

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The values of the variables that are set. A variable that is set to nothing counts as not set.
 * @throws GatewayError `invalid_options`; `param` is the variable, the message says what it takes
 */
export function readSettings(env: Environment): Settings {
  const names = (Object.keys(variables) as VariableName[]).filter((name) => env[name]);
  const { data, error } = environmentSchema.safeParse(Object.fromEntries(names.map((name) => [name, env[name]])));
  if (data) return data;
  const name = error.issues[0]?.path[0] as VariableName;
  const { type, secret } = variables[name];
  return refuseOption(name, `must be ${allowedBy(type)}${secret ? '' : `, not '${env[name]}'`}`);
}

/** The variables as `--help` shows them. */
export function variablesForHelp(): string {
  const lines = Object.entries(variables).map(([name, { meaning, type, default: byDefault, example }]) =>
    [
      `  ${name}`,
      `${meaning}.`,
      `Takes ${allowedBy(type)}.`,
      `Default: ${byDefault}. Example: ${name}=${example}`,
    ].join('\n      '),
  );
  return ['Environment variables:', ...lines].join('\n');
}

/** The variables as docs/configuration.md shows them: a Markdown table. */
export function variablesAsMarkdown(): string {
  const rows = Object.entries(variables).map(
    ([name, { meaning, type, default: byDefault, example }]) =>
      `| \`${name}\` | ${meaning}. Takes ${allowedBy(type)}. | ${byDefault} | \`${example}\` |`,
  );
  return ['| variable | meaning | default | example |', '|---|---|---|---|', ...rows].join('\n');
}

/** A name that differs no more than this from a variable's is taken for a mistake. Characters. */
const maxDistance = 2;
/** Shorter names differ little from anything. Characters. */
const shortest = 8;

const prefix = 'EXPRESS_MODEL_GATEWAY_';
/** What the commands that use the API read. */
const clientVariables = [`${prefix}API_KEY`, `${prefix}BASE_URL`];
/** What the processes of one start tell each other. */
const internalVariable = `${prefix}PROCESS`;

/** What Kubernetes sets in each pod beside a service that is named after this package. */
const serviceVariable = /^EXPRESS_MODEL_GATEWAY_(?:SERVICE_(?:HOST|PORT(?:_\w+)?)|PORT(?:_\d+_(?:TCP|UDP|SCTP)\w*)?)$/;

function isOfService(name: string, value = ''): boolean {
  return serviceVariable.test(name) && (name !== `${prefix}PORT` || value.includes('://'));
}

/** The variable that a name is probably meant to be. Those of the gateway itself have no prefix. */
function meantBy(name: string): string | undefined {
  const variableNames = [...Object.keys(variables), ...clientVariables];
  if (!name.startsWith(prefix)) return closestMatch(name, variableNames, { maxDistance });
  const rest = name.slice(prefix.length);
  if (variableNames.includes(rest)) return rest;
  return closestMatch(name, variableNames, { maxDistance }) ?? (rest.length < shortest ? undefined : meantBy(rest));
}

/** Says in sentences for the operator which set variables are probably names of ours that are wrong. */
export function misspelled(env: Environment): string[] {
  return Object.entries(env).flatMap(([name, value]) => {
    const isKnown = [...clientVariables, internalVariable].includes(name) || Object.hasOwn(variables, name);
    if (isKnown || name.length < shortest || isOfService(name, value)) return [];
    const upper = name.toUpperCase();
    const meant = meantBy(upper);
    const ignored = `${name} is not a variable of the gateway and is ignored;`;
    if (meant) return [`${ignored} did you mean ${meant}?`];
    return upper.startsWith(prefix)
      ? [`${ignored} 'express-model-gateway start --help' lists those that it reads`]
      : [];
  });
}
