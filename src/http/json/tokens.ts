// The tokens of JSON (RFC 8259). A body that is checked has all its bytes, and each token must be right: JsonScan asks where it ends. An
// answer comes in chunks that end anywhere, and only passes: StructureWalk finds its structure, whatever its tokens hold.

// not exported: V8 reads an exported constant as a variable, which makes a loop over bytes half as fast again
const quote = 0x22;
const backslash = 0x5c;
const letterU = 0x75;
const zero = 0x30;
const nine = 0x39;
const comma = 0x2c;
const colon = 0x3a;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;

/** Thrown where bytes stop being JSON. */
export class NotJson {
  /** @param at the index of the byte that JSON cannot have there */
  constructor(readonly at: number) {}
}

/** White space between tokens (RFC 8259, section 2). */
export function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** A string of more bytes is a long one. */
const longString = 256;
/** How much of a long one is looked at as text in one go: a little first, for most end soon, then more. Bytes. */
const firstPiece = 1024;
const largestPiece = 32 * 1024;
const longestEscape = '\\u0000'.length;
/** No client means a number of more bytes. */
const longestNumber = 1_000;

/** What may stand after a backslash, `u` aside (RFC 8259, section 7). */
const escapes: ReadonlySet<number | undefined> = new Set(Buffer.from('"\\/bfnrt'));

function isHex(byte: number | undefined): boolean {
  if (byte === undefined) return false;
  const lower = byte | 0x20;
  return (byte >= zero && byte <= nine) || (lower >= 0x61 && lower <= 0x66);
}

/** The index of the last byte of the escape whose backslash is at `at`. */
function endOfEscape(bytes: Buffer, at: number): number {
  if (bytes[at + 1] !== letterU) {
    if (!escapes.has(bytes[at + 1])) throw new NotJson(at + 1);
    return at + 1;
  }
  for (let i = at + 2; i < at + longestEscape; i += 1) if (!isHex(bytes[i])) throw new NotJson(i);
  return at + longestEscape - 1;
}

/** The index after the string that starts at `start`; -1 when it is a long one. @throws NotJson */
export function endOfShortString(bytes: Buffer, start: number): number {
  const limit = Math.min(start + longString, bytes.length);
  for (let i = start + 1; i < limit; i += 1) {
    const byte = bytes[i] as number;
    if (byte === quote) return i + 1;
    if (byte === backslash) i = endOfEscape(bytes, i);
    else if (byte < 0x20) throw new NotJson(i);
  }
  if (limit < start + longString) throw new NotJson(limit);
  return -1;
}

/** The text of a key or a string whose quotes are at `start` and before `end`. */
export function textAt(bytes: Buffer, start: number, end: number): string {
  const text = bytes.toString('utf8', start + 1, end - 1);
  return text.includes('\\') ? (JSON.parse(`"${text}"`) as string) : text;
}

/**
 * Goes through a long string from `from`, which is in it and in no escape, to its end or to `until`, whatever comes first.
 * @returns the index of its closing quote, or of where to continue. @throws NotJson
 */
export function throughLongString(bytes: Buffer, from: number, until: number): number {
  // one compiled expression over text is several times as fast as a loop over bytes, and makes no copy that lasts
  const run = /[ !#-[\]-\xff]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[ !#-[\]-\xff]*)*/y;
  let at = from;
  for (let pieceLength = firstPiece; at < until; pieceLength = Math.min(largestPiece, 4 * pieceLength)) {
    run.lastIndex = 0;
    run.test(bytes.toString('latin1', at, at + pieceLength));
    at += run.lastIndex;
    if (bytes[at] === quote) return at;
    // the rest of a piece can be an escape that continues in the next one
    if (run.lastIndex < pieceLength - longestEscape) throw new NotJson(at);
  }
  return at;
}

const isDigit = (byte: number | undefined): boolean => byte !== undefined && byte >= zero && byte <= nine;

function afterDigits(bytes: Buffer, from: number): number {
  if (!isDigit(bytes[from])) throw new NotJson(from);
  let i = from + 1;
  while (isDigit(bytes[i])) {
    i += 1;
    if (i - from > longestNumber) throw new NotJson(i);
  }
  return i;
}

/** The index after the number that starts at `start` (RFC 8259, section 6). @throws NotJson */
export function endOfNumber(bytes: Buffer, start: number): number {
  let i = bytes[start] === 0x2d ? start + 1 : start;
  i = bytes[i] === zero ? i + 1 : afterDigits(bytes, i);
  if (bytes[i] === 0x2e) i = afterDigits(bytes, i + 1);
  if (bytes[i] === 0x65 || bytes[i] === 0x45) {
    i += bytes[i + 1] === 0x2b || bytes[i + 1] === 0x2d ? 2 : 1;
    i = afterDigits(bytes, i);
  }
  return i;
}

/** Whether a number is a whole one for certain: written in so few digits that nothing of it is lost. */
export function isShortInteger(bytes: Buffer, start: number, end: number): boolean {
  if (end - start > 15) return false;
  for (let i = start + 1; i < end; i += 1) if (!isDigit(bytes[i])) return false;
  return true;
}

/**
 * Whether a number keeps its value for certain when it is parsed and written again: a double holds 15 digits (DBL_DIG). Another
 * number may keep it too.
 */
export function isShortDecimal(bytes: Buffer, start: number, end: number): boolean {
  if (end - start > 15) return false;
  for (let i = start; i < end; i += 1) if (((bytes[i] as number) | 0x20) === 0x65) return false;
  return true;
}

const literals = [
  { bytes: Buffer.from('true'), value: true },
  { bytes: Buffer.from('false'), value: false },
  { bytes: Buffer.from('null'), value: null },
] as const;

/** The literal that starts at `start`. @throws NotJson */
export function literalAt(bytes: Buffer, start: number): { readonly value: boolean | null; readonly end: number } {
  const literal = literals.find((known) => known.bytes[0] === bytes[start]);
  if (!literal) throw new NotJson(start);
  for (let i = 1; i < literal.bytes.length; i += 1) {
    if (bytes[start + i] !== literal.bytes[i]) throw new NotJson(start + i);
  }
  return { value: literal.value, end: start + literal.bytes.length };
}

/**
 * Goes through JSON that comes in chunks, from one mark of its structure to the next. Texts are passed over, whatever they hold, and so is
 * all that stands between: numbers, literals, white space, and the lines of an event stream.
 */
export class StructureWalk {
  /** How many objects and lists are open. */
  depth = 0;
  #inString = false;
  /** Whether the bytes have ended with the backslash of an escape. */
  #isEscaped = false;

  /**
   * Goes on from `start`, counting in `depth` what opens and closes.
   * @returns the index of the next brace, bracket, colon, comma or closing quote; the length of the bytes when none is in them
   */
  next(bytes: Buffer, start: number): number {
    let at = this.#isEscaped ? start + 1 : start;
    if (!this.#inString) {
      for (; at < bytes.length; at += 1) {
        const byte = bytes[at];
        if (byte === quote) {
          this.#inString = true;
          at += 1;
          break;
        }
        if (byte === comma || byte === colon) return at;
        if (byte === openBrace || byte === openBracket) {
          this.depth += 1;
          return at;
        }
        if (byte === closeBrace || byte === closeBracket) {
          this.depth -= 1;
          return at;
        }
      }
    }
    for (; at < bytes.length; at += 1) {
      const byte = bytes[at];
      // a quote behind it is part of the text
      if (byte === backslash) at += 1;
      else if (byte === quote) {
        this.#inString = false;
        this.#isEscaped = false;
        return at;
      }
    }
    this.#isEscaped = at > bytes.length;
    return bytes.length;
  }
}

/**
 * Folds a key as case-insensitive readers such as Go's encoding/json do (Unicode's simple case folding): `ſ` (U+017F) becomes
 * s, and the Kelvin sign (U+212A) k.
 */
export function foldCase(key: string): string {
  return key.toUpperCase().toLowerCase();
}

/** The number of the character, counted from 1, that a byte belongs to. */
function characterAt(bytes: Buffer, at: number): number {
  let count = 1;
  // all bytes of a character but the first start with 10 (RFC 3629, section 3)
  for (let i = 0; i < at; i += 1) if (((bytes[i] as number) & 0xc0) !== 0x80) count += 1;
  return count;
}

/** Says where the text stops being JSON. Quotes none of it, because it may hold a secret. */
export function whereItBreaks(bytes: Buffer, { at }: NotJson): string {
  if (at < bytes.length) return `look at character ${characterAt(bytes, at)}`;
  return bytes.length <= largestPiece && bytes.toString('latin1').trim() === '' ? 'it is empty' : 'it breaks off';
}

export const noBytes: Buffer = Buffer.alloc(0);

/** The bytes of something incomplete, in one buffer that doubles when it is full: each byte is copied a few times at most. */
export class ByteBuffer {
  readonly #limit: number;
  #buffer: Buffer = noBytes;
  #length = 0;

  /** @param limit the most that is held. Bytes. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** @returns whether there was room; if not, everything held is dropped */
  add(bytes: Buffer): boolean {
    const length = this.#length + bytes.length;
    if (length > this.#limit) {
      this.take();
      return false;
    }
    if (length > this.#buffer.length) {
      const grown = Buffer.allocUnsafe(Math.max(length, 2 * this.#buffer.length));
      this.#buffer.copy(grown, 0, 0, this.#length);
      this.#buffer = grown;
    }
    this.#buffer.set(bytes, this.#length);
    this.#length = length;
    return true;
  }

  /** Takes out everything held, with `rest` appended. */
  take(rest = noBytes): Buffer {
    if (this.#length === 0) return rest;
    const all = Buffer.concat([this.#buffer.subarray(0, this.#length), rest]);
    this.#buffer = noBytes;
    this.#length = 0;
    return all;
  }
}
