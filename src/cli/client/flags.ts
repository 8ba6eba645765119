import { readFile } from 'node:fs/promises';
import { InvalidArgumentError } from 'commander';
import { isExactNumber } from '../../http/json/exact-number.ts';
import { parseJson } from '../../http/json/scan.ts';
import { parseDuration } from '../../options/kinds.ts';
import { wrongUse } from '../terminal/command-failure.ts';
import type { Terminal } from '../terminal/terminal.ts';

/** Gathers an option that may be given several times, or once with commas. */
export function several(text: string, before: readonly string[] = []): readonly string[] {
  const values = text.split(',').map((value) => value.trim());
  if (values.some((value) => value === '')) throw new InvalidArgumentError('There is a comma too many.');
  return [...before, ...values];
}

/**
 * Reads a moment: a span before now such as `2h`, or a time; one without a zone is on the local clock.
 * @returns ISO 8601, UTC
 */
export function moment(now: () => number): (text: string) => string {
  return (text) => {
    const span = parseDuration(text);
    const at = new Date(span === undefined ? text : now() - span);
    if (!Number.isNaN(at.getTime())) return at.toISOString();
    throw new InvalidArgumentError(
      'It must be a span before now such as 30m, 2h or 7d, or a time such as 2026-01-31T08:00.',
    );
  };
}

/** Reads a number of things, from 1. */
export function count(text: string): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= 1 && value <= 100_000) return value;
  throw new InvalidArgumentError('It must be a whole number from 1 to 100000.');
}

/** Reads a number in decimal. @throws InvalidArgumentError for one that JSON would change; `undefined` for what is none */
export function decimal(text: string): number | undefined {
  if (!/^\d+(\.\d+)?$/.test(text)) return undefined;
  if (isExactNumber(text)) return Number(text);
  throw new InvalidArgumentError('It has more digits than JSON numbers keep, so it would change; use fewer.');
}

/** Reads an amount above nothing. */
export function amount(text: string): number {
  const value = decimal(text);
  if (value !== undefined && value > 0) return value;
  throw new InvalidArgumentError('It must be a number above 0, such as 500 or 0.25.');
}

async function readText(option: string, value: string, terminal: Terminal): Promise<string> {
  if (value === '-') return terminal.readInput();
  if (!value.startsWith('@')) return value;
  return readFile(value.slice(1), 'utf8').catch((error: Error) => {
    throw wrongUse(`${option}: ${value.slice(1)} cannot be read: ${error.message}`);
  });
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
    if (typeof data === 'object' && data !== null && !Array.isArray(data)) return data as Record<string, unknown>;
  } catch (error) {
    const { message } = error as Error;
    throw wrongUse(error instanceof SyntaxError ? `${option}: is not JSON: ${message}` : `${option}: ${message}`);
  }
  throw wrongUse(`${option}: must be a JSON object, such as '{"user_id":"usr_1"}'`);
}
