import { readFile } from 'node:fs/promises';
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
 * Reads an option that is a JSON object, `@<file>` or `-` for stdin.
 * @throws CommandFailure for what is no JSON object; whether it fits is for the gateway to say
 */
export async function readJsonObject(
  option: string,
  value: string,
  terminal: Terminal,
): Promise<Record<string, unknown>> {
  const text = await readText(option, value, terminal);
  try {
    const data: unknown = JSON.parse(text);
    if (typeof data === 'object' && data !== null && !Array.isArray(data)) return data as Record<string, unknown>;
  } catch (error) {
    throw wrongUse(`${option}: is not JSON: ${(error as Error).message}`);
  }
  throw wrongUse(`${option}: must be a JSON object, such as '{"user_id":"usr_1"}'`);
}
