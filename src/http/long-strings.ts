const quote = 0x22;
const backslash = 0x5c;

/** A string of more bytes is a long one. */
const shortest = 256;
/** How much of a long one is looked at in one go, as text. Bytes. */
const pieceLength = 32 * 1024;
const longestEscape = '\\u0000'.length;

/** The index after a string that starts at `start` and is not long; -1 when it is, or has no end. */
function endOfShort(bytes: Buffer, start: number): number {
  const limit = Math.min(bytes.length, start + shortest);
  for (let i = start + 1; i < limit; i += 1) {
    const byte = bytes[i];
    if (byte === quote) return i + 1;
    if (byte === backslash) i += 1;
  }
  return -1;
}

/** The index after a string that starts at `start`; -1 when it has no end, or holds what JSON strings cannot (RFC 8259, section 7). */
function endOfLong(bytes: Buffer, start: number): number {
  // one compiled expression over text is several times as fast as a loop over bytes, and makes no copy that lasts
  const run = /[ !#-[\]-\xff]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[ !#-[\]-\xff]*)*/y;
  let at = start + 1;
  for (;;) {
    run.lastIndex = 0;
    run.test(bytes.toString('latin1', at, at + pieceLength));
    at += run.lastIndex;
    if (bytes[at] === quote) return at + 1;
    // what is left of a piece may be an escape that goes on in the next one
    if (run.lastIndex < pieceLength - longestEscape) return -1;
  }
}

/** JSON without its long strings, and where these stand. */
export interface Shortened {
  /** The same JSON with `"…"` in the place of each. */
  readonly text: string;
  /** Start → end of each, quotes included, in the bytes. */
  readonly longStrings: ReadonlyMap<number, number>;
}

/**
 * Takes the long strings out of JSON, so that what has to be looked at of a prompt or an image is small: text of 200 KB
 * costs more to decode and to parse than to relay. What is left is JSON if and only if the whole is. Pure.
 * @param bytes valid UTF-8
 * @returns `undefined` when a long string is none that JSON can have
 */
export function withoutLongStrings(bytes: Buffer): Shortened | undefined {
  const longStrings = new Map<number, number>();
  let text = '';
  let from = 0;
  for (let start = bytes.indexOf(quote); start !== -1; ) {
    let end = endOfShort(bytes, start);
    if (end === -1) {
      end = endOfLong(bytes, start);
      if (end === -1) return undefined;
      longStrings.set(start, end);
      text += `${bytes.toString('utf8', from, start)}"…"`;
      from = end;
    }
    start = bytes.indexOf(quote, end);
  }
  return { text: text + bytes.toString('utf8', from), longStrings };
}
