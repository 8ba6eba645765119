import { readFile } from 'node:fs/promises';
import { parseJson } from '../../http/json/parse.ts';
import { wrongUse } from '../terminal/command-failure.ts';
import type { Terminal } from '../terminal/terminal.ts';

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
