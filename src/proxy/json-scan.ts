import { GatewayError } from '../errors.ts';

/** Where a value stands in the bytes: `start` inclusive, `end` exclusive. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function skipSpace(bytes: Buffer, from: number): number {
  let i = from;
  while (isSpace(bytes[i])) i += 1;
  return i;
}

/** How far a string is read byte by byte before it is taken for a long one, such as an image. */
const shortRun = 256;

/** The index after the string that starts at `start`. `indexOf` makes a 10 MB image a matter of microseconds. */
function skipString(bytes: Buffer, start: number): number {
  let i = start + 1;
  let runEnd = i + shortRun;
  while (i < bytes.length) {
    const byte = bytes[i];
    if (byte === quote) return i + 1;
    if (byte === backslash) {
      i += 2;
      runEnd = i + shortRun;
    } else if (i < runEnd) {
      i += 1;
    } else {
      const next = bytes.indexOf(quote, i);
      if (next === -1) return bytes.length;
      let escapes = 0;
      while (bytes[next - 1 - escapes] === backslash) escapes += 1;
      if (escapes % 2 === 0) return next + 1;
      i = next + 1;
      runEnd = i + shortRun;
    }
  }
  return bytes.length;
}

/** Start → end of strings whose ends need not be looked for. */
type KnownStrings = ReadonlyMap<number, number> | undefined;

/** The index after the value that starts at `start`. */
function skipValue(bytes: Buffer, start: number, known: KnownStrings): number {
  if (bytes[start] === quote) return known?.get(start) ?? skipString(bytes, start);
  let depth = 0;
  for (let i = start; i < bytes.length; i += 1) {
    const byte = bytes[i];
    if (byte === quote) {
      i = (known?.get(i) ?? skipString(bytes, i)) - 1;
    } else if (byte === openBrace || byte === openBracket) {
      depth += 1;
    } else if (byte === closeBrace || byte === closeBracket) {
      if (depth === 0) return i;
      depth -= 1;
      if (depth === 0) return i + 1;
    } else if (depth === 0 && (byte === comma || isSpace(byte))) {
      return i;
    }
  }
  return bytes.length;
}

/** A key of the bytes as the text it means: `"mode\u006c"` is `model`. */
function keyText(bytes: Buffer, start: number, end: number): string {
  const raw = bytes.toString('utf8', start, end);
  return raw.includes('\\') ? (JSON.parse(raw) as string) : raw.slice(1, -1);
}

/**
 * Finds the values of some keys of the JSON object that starts at or after `from`, and nothing else of it: what is
 * not asked for is skipped over, so that it can go on as it came. Pure.
 * @param bytes valid JSON
 * @param known start → end of strings whose ends need not be looked for
 * @throws GatewayError `duplicate_parameter` when one of the keys stands there twice, however it is escaped: another
 * reader might take the other value than the one that was checked
 */
export function findValues<Key extends string>(
  bytes: Buffer,
  keys: readonly Key[],
  from = 0,
  known?: KnownStrings,
): Partial<Record<Key, Span>> {
  const found: Partial<Record<Key, Span>> = {};
  let i = skipSpace(bytes, from);
  if (bytes[i] !== openBrace) return found;
  i = skipSpace(bytes, i + 1);
  while (i < bytes.length && bytes[i] === quote) {
    const keyEnd = known?.get(i) ?? skipString(bytes, i);
    const key = keyText(bytes, i, keyEnd) as Key;
    const start = skipSpace(bytes, skipSpace(bytes, keyEnd) + 1);
    const end = skipValue(bytes, start, known);
    if (keys.includes(key)) {
      if (found[key]) throw new GatewayError('duplicate_parameter', `'${key}' is given twice`, { param: key });
      found[key] = { start, end };
    }
    i = skipSpace(bytes, end);
    if (bytes[i] !== comma) break;
    i = skipSpace(bytes, i + 1);
  }
  return found;
}

/** The value at a span. */
export function valueAt(bytes: Buffer, { start, end }: Span): unknown {
  return JSON.parse(bytes.toString('utf8', start, end));
}
