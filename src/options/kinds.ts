import { readFileSync } from 'node:fs';
import { refuse } from '../errors.ts';
import { renamed } from './renamed.ts';

/** Checks the value of an option. @throws GatewayError `invalid_options`, naming the option in `param` and the fix in the message */
export type Check = (param: string, value: unknown) => void;

/** How the text of an environment variable is read. */
export interface Reader<T = unknown> {
  /** What it takes, in words that complete the sentence "must be …". */
  readonly allowed: string;
  /** The value of a text; `undefined` where it is not valid. */
  readonly read: (text: string) => T | undefined;
  /** What is wrong with a text that is not valid, where that needs more than `allowed`. It must not repeat a secret. */
  readonly problem?: (text: string) => string;
  /** The text of a value. */
  show(value: T): string;
}

/** What an option may be, and how its environment variable is read. */
export interface Kind<T = unknown> extends Reader<T> {
  readonly check: Check;
}

/** The names that a JSON pointer goes through (RFC 6901, section 4). */
export function namesIn(pointer: string): string[] {
  const names = pointer.split('/').slice(1);
  return names.map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** @throws GatewayError `invalid_options`, naming the option in `param` and the fix in the message */
export function refuseOption(param: string, message: string): never {
  refuse('invalid_options', param, message);
}

/** @throws GatewayError `invalid_options`, with the new name of an option that was renamed, otherwise with those that there are */
export function refuseUnknown(param: string, allowed: readonly string[]): never {
  refuseOption(param, renamed(param) ?? `is not an option; there are ${allowed.join(', ')}`);
}

/** @throws GatewayError `invalid_options` for the first key that is not allowed, with those that are */
export function checkKeys(param: string, given: object, allowed: readonly string[]): void {
  for (const key of Object.keys(given)) {
    if (!allowed.includes(key)) refuseUnknown(`${param}.${key}`, allowed);
  }
}

export function checkWholeNumber(param: string, value: unknown, min: number, max: number): void {
  if (Number.isInteger(value) && Number(value) >= min && Number(value) <= max) return;
  refuseOption(
    param,
    `must be a whole number from ${min} to ${max}, not ${typeof value === 'string' ? `'${value}'` : String(value)}`,
  );
}

function within<T extends number>(value: T | undefined, min: number, max: number): T | undefined {
  return value !== undefined && value >= min && value <= max ? value : undefined;
}

export function wholeNumber(min: number, max: number): Kind<number> {
  return {
    allowed: `a whole number from ${min} to ${max}`,
    read: (text) => (/^\d+$/.test(text) ? within(Number(text), min, max) : undefined),
    show: String,
    check: (param, value) => checkWholeNumber(param, value, min, max),
  };
}

/** Whole milliseconds. A variable has them with a unit: `5m`. */
export function duration(min: number, max: number, allowed?: string): Kind<number> {
  const from = min === 0 ? '0s' : formatDuration(min);
  return {
    allowed: allowed ?? `a duration from ${from} to ${formatDuration(max)}`,
    read: (text) => within(parseDuration(text), min, max),
    show: formatDuration,
    check: (param, value) => checkWholeNumber(param, value, min, max),
  };
}

const units = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

type Unit = keyof typeof units;

const form = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$/;

/**
 * Reads a duration: a number and one of `ms`, `s`, `m`, `h`, `d`, or a bare `0`.
 * @returns whole milliseconds; `undefined` for anything else, a bare number included, which the package `ms` takes for milliseconds
 */
export function parseDuration(text: string): number | undefined {
  const trimmed = text.trim();
  if (trimmed === '0') return 0;
  const [, amount, unit] = form.exec(trimmed) ?? [];
  if (amount === undefined || unit === undefined) return undefined;
  const ms = Number(amount) * units[unit as Unit];
  return Number.isSafeInteger(ms) ? ms : undefined;
}

/** Writes a duration in the largest unit that divides it: `90s`, `2h`. */
export function formatDuration(ms: number): string {
  const order: readonly Unit[] = ['d', 'h', 'm', 's'];
  const unit = ms === 0 ? undefined : order.find((name) => ms % units[name] === 0);
  return unit ? `${ms / units[unit]}${unit}` : `${ms}ms`;
}

/** A number from `min`. A variable has it to a millionth, from 0. */
export function amount(max: number, min = 0): Kind<number> {
  return {
    allowed: `an amount from 0 to ${max}, such as 2.5`,
    read: (text) => (/^\d+(\.\d{1,6})?$/.test(text) ? within(Number(text), 0, max) : undefined),
    show: String,
    check(param, value) {
      if (typeof value === 'number' && value >= min && value <= max) return;
      refuseOption(param, `must be a number from ${min} to ${max}, not ${String(value)}`);
    },
  };
}

const truthy = ['true', '1', 'yes', 'on'];
const falsy = ['false', '0', 'no', 'off'];

export const yesOrNo: Kind<boolean> = {
  allowed: 'true or false',
  read(text) {
    const word = text.toLowerCase();
    return truthy.includes(word) || (falsy.includes(word) ? false : undefined);
  },
  show: String,
  check(param, value) {
    if (typeof value !== 'boolean') refuseOption(param, 'must be true or false');
  },
};

export function oneOf<const T extends string>(...values: readonly T[]): Kind<T> {
  const quoted = values.map((value) => `'${value}'`);
  return {
    allowed: `one of ${values.join(', ')}`,
    read: (text) => values.find((value) => value === text),
    show: String,
    check(param, given) {
      if (values.some((value) => value === given)) return;
      refuseOption(param, `must be ${quoted.slice(0, -1).join(', ')} or ${quoted.at(-1)}`);
    },
  };
}

/** @param problem what an option's value must be, in the words of the error about it */
export function matching(pattern: RegExp, allowed: string, problem = `must be ${allowed}`): Kind<string> {
  return {
    allowed,
    read: (text) => (pattern.test(text) ? text : undefined),
    show: String,
    check(param, value) {
      if (typeof value !== 'string' || !pattern.test(value)) refuseOption(param, problem);
    },
  };
}

/** The URL of a proxy, if it is one: credentials and nothing behind the host. */
function readProxyUrl(text: string): string | undefined {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return undefined;
  const { username, password, pathname, search, hash } = new URL(text);
  if (pathname !== '/' || search !== '' || hash !== '') return undefined;
  try {
    // each alone, as they are sent
    for (const part of [username, password]) decodeURIComponent(part);
    return text;
  } catch {
    return undefined;
  }
}

/** A proxy. A variable may leave out `http://`, as it may for curl. Errors must not repeat the value: there can be a password in it. */
export const proxyUrl: Kind<string> = {
  allowed: 'an http or https URL without a path, such as http://user:password@proxy.example.com:3128',
  read: (text) => readProxyUrl(text.includes('://') ? text : `http://${text}`),
  show: String,
  check(param, value) {
    if (typeof value === 'string' && readProxyUrl(value) !== undefined) return;
    refuseOption(param, `must be ${proxyUrl.allowed}`);
  },
};

/** Several values with commas between them; every one must be valid, and `none` is the empty list. */
export function listOf<T>(item: Reader<T>, maxItems: number, allowed: string): Reader<readonly T[]> {
  return {
    allowed,
    read(text) {
      const parts = text === 'none' ? [] : text.split(',').map((part) => part.trim());
      const values = parts.map(item.read);
      return values.length <= maxItems && !values.includes(undefined) ? (values as T[]) : undefined;
    },
    show: (values) => values.map(item.show).join(','),
  };
}

/** The JSON object that is a text or stands in the file that it names, or what is wrong there. */
function objectIn(text: string): Readonly<Record<string, never>> | string {
  const isFile = !text.trimStart().startsWith('{');
  // a path has neither; a text that has may be options with a password in them
  const place = /["{]/.test(text) ? 'it' : text;
  try {
    const value: unknown = JSON.parse(isFile ? readFileSync(text, 'utf8') : text);
    return isObject(value) ? (value as Record<string, never>) : `${place} is JSON, but not an object`;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // a parser's message quotes the text, which may hold a key
    return code ? `${place} cannot be read (${code})` : `${place} is not JSON`;
  }
}

/** JSON as it stands in the variable, or in the file that is named there. */
export const jsonObject: Reader<Readonly<Record<string, never>>> = {
  allowed: 'a JSON object, or the path of a file with one',
  read(text) {
    const found = objectIn(text);
    return typeof found === 'string' ? undefined : found;
  },
  problem: (text) => String(objectIn(text)),
  show: (value) => JSON.stringify(value),
};

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Makes the check of an object that has these fields alone. All may be left out but those that are `required`. */
export function objectOf(fields: Readonly<Record<string, Check>>, required: readonly string[] = []): Check {
  return (param, given) => {
    if (!isObject(given)) refuseOption(param, 'must be an object');
    checkKeys(param, given, Object.keys(fields));
    for (const [name, check] of Object.entries(fields)) {
      if (given[name] !== undefined || required.includes(name)) check(`${param}.${name}`, given[name]);
    }
  };
}

/** An option that differs from its variable: the variable takes less, or is written in another way. */
export function readAs<T>(reader: Reader<T>, check: Check): Kind<T> {
  return { ...reader, check };
}

/** Takes every value: another part checks it. */
export const unchecked: Check = () => {};

export const aFunction: Check = (param, value) => {
  if (typeof value !== 'function') refuseOption(param, 'must be a function');
};
