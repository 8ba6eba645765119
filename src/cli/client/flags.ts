import { readFile } from 'node:fs/promises';
import { InvalidArgumentError } from 'commander';
import { isExactNumber } from '../../http/json/exact-number.ts';
import { parseJson } from '../../http/json/scan.ts';
import { isObject, parseDuration, type Reader, wholeNumber } from '../../options/kinds.ts';
import { wrongUse } from '../terminal/command-failure.ts';
import type { Terminal } from '../terminal/terminal.ts';

/** Gathers an option that may be given several times, or once with commas. */
export function several(text: string, before: readonly string[] = []): readonly string[] {
  const values = text.split(',').map((value) => value.trim());
  if (values.some((value) => value === '')) throw new InvalidArgumentError('There is a comma too many.');
  return [...before, ...values];
}

/** The same for some of these names. */
export function severalOf(names: readonly string[]): typeof several {
  return (text, before) => {
    const values = several(text, before);
    if (values.every((value) => names.includes(value))) return values;
    throw new InvalidArgumentError(`It must be some of ${names.join(', ')}.`);
  };
}

/** Makes what reads a name and its value, and gathers several. */
export function pairs<Value>(separator: string, example: string, read: (text: string) => Value) {
  return (text: string, before: Readonly<Record<string, Value>> = {}): Record<string, Value> => {
    const at = text.indexOf(separator);
    if (at < 1) throw new InvalidArgumentError(`It must be a name and a value, such as ${example}.`);
    return { ...before, [text.slice(0, at).trim()]: read(text.slice(at + separator.length)) };
  };
}

/** Makes what reads an option. @throws InvalidArgumentError, which commander shows with the option's name */
export function take<T>({ read, allowed }: Pick<Reader<T>, 'read' | 'allowed'>): (text: string) => T {
  return (text) => {
    const value = read(text);
    if (value === undefined) throw new InvalidArgumentError(`It must be ${allowed}.`);
    return value;
  };
}

/** The time that a text or milliseconds since 1970 say; a text without a zone is on the local clock. */
export function toDate(value: string | number): Date | undefined {
  const date = new Date(value);
  return Number.isNaN(date.getTime()) ? undefined : date;
}

/** Reads a span before now such as `2h`, or a time. @returns ISO 8601, UTC */
export function moment(now: () => number): (text: string) => string {
  return take({
    allowed: 'a span before now such as 30m, 2h or 7d, or a time such as 2026-01-31T08:00',
    read(text) {
      const span = parseDuration(text);
      return toDate(span === undefined ? text : now() - span)?.toISOString();
    },
  });
}

/** Reads a number of things, from 1. */
export const count = take(wholeNumber(1, 100_000));

/** Reads a number in decimal. @throws InvalidArgumentError for one that JSON would change; `undefined` for what is none */
export function decimal(text: string): number | undefined {
  if (!/^\d+(\.\d+)?$/.test(text)) return undefined;
  if (isExactNumber(text)) return Number(text);
  throw new InvalidArgumentError('It has more digits than JSON numbers keep, so it would change; use fewer.');
}

export const amount = take({
  allowed: 'a number above 0, such as 500 or 0.25',
  read: (text) => decimal(text) || undefined,
});

/** The bytes of a file, or `-` for stdin. */
export async function readBytes(option: string, path: string, terminal: Terminal): Promise<Buffer> {
  if (path === '-') return terminal.readInput();
  return readFile(path).catch((error: Error) => {
    throw wrongUse(`${option}: ${path} cannot be read: ${error.message}`);
  });
}

/** The text of an option: as it stands, of `@<file>`, or `-` for stdin. */
export async function readText(option: string, value: string, terminal: Terminal): Promise<string> {
  if (value !== '-' && !value.startsWith('@')) return value;
  return (await readBytes(option, value.replace(/^@/, ''), terminal)).toString();
}

/**
 * Parses JSON as the gateway does.
 * @throws Error for what is no JSON, and for what JSON.parse would silently change: a number with too many digits, a key that is there twice
 */
export function parseExact(text: string): unknown {
  const value: unknown = JSON.parse(text);
  parseJson(Buffer.from(text));
  return value;
}

/**
 * Reads an option that is a JSON object, `@<file>` or `-` for stdin.
 * @throws CommandFailure for what is no JSON object, or would not be sent as it is written; whether it fits is for the gateway to say
 */
export async function readJsonObject(
  option: string,
  value: string,
  terminal: Terminal,
): Promise<Record<string, unknown>> {
  const text = await readText(option, value, terminal);
  try {
    const data = parseExact(text);
    if (isObject(data)) return data;
  } catch (error) {
    const { message } = error as Error;
    throw wrongUse(error instanceof SyntaxError ? `${option}: is not JSON: ${message}` : `${option}: ${message}`);
  }
  throw wrongUse(`${option}: must be a JSON object, such as '{"user_id":"usr_1"}'`);
}
