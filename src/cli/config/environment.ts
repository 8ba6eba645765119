// small, typed, maintained; bundled, so no host installs it
import { closestMatch } from 'leven';
import { refuseOption } from '../../options/kinds.ts';
import { formerVariables, type Settings, type VariableName, variables } from './variables.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

const everyVariable = Object.entries(variables);

/**
 * The values of the variables that are set. A variable that is set to nothing counts as not set.
 * @throws GatewayError `invalid_options`; `param` is the variable, the message says what it takes
 */
export function readSettings(env: Environment): Settings {
  for (const [name, instead] of Object.entries(formerVariables)) {
    if (env[name]) refuseOption(name, `is no variable any more: ${instead}`);
  }
  const set = everyVariable.flatMap(([name, { type, secret, lowerCase }]) => {
    const used = lowerCase && env[name.toLowerCase()] ? name.toLowerCase() : name;
    const text = env[used];
    if (!text) return [];
    const value = type.read(text);
    if (value === undefined) {
      const problem = type.problem ? `: ${type.problem(text)}` : secret ? '' : `, not '${text}'`;
      refuseOption(used, `must be ${type.allowed}${problem}`);
    }
    return [[name, value]];
  });
  return Object.fromEntries(set);
}

/** What a variable says, or its default in the table if it is not set. */
export function settingOf<Name extends VariableName>(settings: Settings, name: Name): NonNullable<Settings[Name]> {
  const { type, default: byDefault } = variables[name];
  return settings[name] ?? (type.read(byDefault) as NonNullable<Settings[Name]>);
}

/** The object without its `undefined` values, for options that take no `undefined`. */
export function omitUndefined<T extends object>(values: T): { [Name in keyof T]?: Exclude<T[Name], undefined> } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as never;
}

export function variablesForHelp(): string {
  const lines = everyVariable.map(([name, { meaning, type, default: byDefault, example }]) =>
    [`  ${name}`, `${meaning}.`, `Takes ${type.allowed}.`, `Default: ${byDefault}. Example: ${name}=${example}`].join(
      '\n      ',
    ),
  );
  return ['Environment variables:', ...lines].join('\n');
}

/** The variables as docs/variables.md shows them: a Markdown table. */
export function variablesAsMarkdown(): string {
  const rows = everyVariable.map(
    ([name, { meaning, type, default: byDefault, example }]) =>
      `| \`${name}\` | ${meaning}. Takes ${type.allowed}. | ${byDefault} | \`${example}\` |`,
  );
  return ['| variable | meaning | default | example |', '|---|---|---|---|', ...rows].join('\n');
}

/** The variables that there once were, in the same form. */
export function formerVariablesAsMarkdown(): string {
  const rows = Object.entries(formerVariables).map(([name, instead]) => `| \`${name}\` | ${instead} |`);
  return ['| before | now |', '|---|---|', ...rows].join('\n');
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

/** Proxies of other programs, and the names of ours in lower case. */
const commonProxy = /^(?:all|ftp|grpc|https?|no|rsync|socks|wss?)_proxy$/i;

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
    if (isKnown || commonProxy.test(name) || name.length < shortest || isOfService(name, value)) return [];
    const upper = name.toUpperCase();
    const meant = meantBy(upper);
    const ignored = `${name} is not a variable of the gateway and is ignored;`;
    if (meant) return [`${ignored} did you mean ${meant}?`];
    return upper.startsWith(prefix)
      ? [`${ignored} 'express-model-gateway start --help' lists those that it reads`]
      : [];
  });
}
