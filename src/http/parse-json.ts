import { isUtf8 } from 'node:buffer';
import { GatewayError } from '../errors.ts';
import { withoutLongStrings } from './long-strings.ts';

/** How deep JSON may nest. Enough for any real body; far below where BSON (200) and recursion give up. */
const maxDepth = 100;

/** Whether a value nests deeper than so many levels; the look itself goes no deeper than that. */
function nestsDeeperThan(levels: number, value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 0) return true;
  if (Array.isArray(value)) {
    for (const item of value) if (nestsDeeperThan(levels - 1, item)) return true;
    return false;
  }
  for (const key in value) if (nestsDeeperThan(levels - 1, (value as Record<string, unknown>)[key])) return true;
  return false;
}

/** @throws GatewayError `invalid_json` when a value nests deeper than 100 levels */
export function checkDepth(value: unknown): void {
  if (nestsDeeperThan(maxDepth, value)) {
    throw new GatewayError('invalid_json', `The body nests deeper than ${maxDepth} levels`);
  }
}

/** V8 quotes the body in its message, which may hold a secret: only the position is passed on. */
function whereItBreaks(error: unknown, text: string): string {
  const position = /at position (\d+)/.exec((error as Error).message)?.[1];
  if (position === undefined) return text.trim() === '' ? 'it is empty' : 'it breaks off or has a stray character';
  return `look at character ${Number(position) + 1}`;
}

/**
 * Decodes and parses a JSON body.
 * @throws GatewayError `invalid_encoding` when the bytes are not UTF-8; `invalid_json` when they are not JSON (RFC 8259)
 * or nest deeper than 100 levels
 */
export function parseJson(bytes: Buffer): { text: string; value: unknown } {
  if (!isUtf8(bytes)) throw new GatewayError('invalid_encoding', 'The body must be UTF-8');
  const text = bytes.toString('utf8');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new GatewayError('invalid_json', `The body is not valid JSON: ${whereItBreaks(error, text)}`);
  }
  checkDepth(value);
  return { text, value };
}

/** A body of fewer bytes is parsed whole in less time than its long strings are found in. */
const shortBody = 2 * 1024;

/** JSON that was looked at without its long strings. */
export interface LookedAt {
  /** What it parses to; strings of more than 256 bytes may be cut to `…`. */
  readonly value: unknown;
  /** Where the strings stand that were cut: start → end, quotes included. */
  readonly longStrings?: ReadonlyMap<number, number>;
}

/**
 * Does for a body that is only looked at and goes on as it came what {@link parseJson} does for others.
 * @throws GatewayError the same
 */
export function lookAtJson(bytes: Buffer): LookedAt {
  const shortened = bytes.length > shortBody && isUtf8(bytes) ? withoutLongStrings(bytes) : undefined;
  if (!shortened?.longStrings.size) return { value: parseJson(bytes).value };
  let value: unknown;
  try {
    value = JSON.parse(shortened.text);
  } catch {
    // only the whole text tells where it goes wrong
    return { value: parseJson(bytes).value };
  }
  checkDepth(value);
  return { value, longStrings: shortened.longStrings };
}
