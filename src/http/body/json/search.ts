import { isSpace } from './tokens.ts';

const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;
/** What begins each line of an event; an event's JSON can continue in the next line. */
const dataField = Buffer.from('data:');

/** A key whose values are searched for. Searches may share one. */
export interface SearchedKey {
  /** The key with its quotes. */
  readonly bytes: Buffer;
  /** The first bytes of the values to find; other values are skipped. */
  readonly openings: readonly number[];
}

/**
 * @param openings `{` for objects, `"` for strings, `[` for lists of numbers: a list ends at the first bracket that closes
 */
export function searchedKey(name: string, openings: string): SearchedKey {
  return { bytes: Buffer.from(`"${name}"`), openings: [...Buffer.from(openings)] };
}

/**
 * Finds the values of one key in JSON or in an event stream, chunk by chunk, without parsing anything else: inside a JSON
 * string the quotes of the key would be escaped, so the bytes can only be a key. Reads each byte once. JsonScan, which checks a whole text, takes 1.3 times the CPU for an answer of 1 KB, 5 times for
 * images in base64 and 40 times for vectors.
 */
export class JsonSearch {
  /** Whether a value has begun and has not ended yet. */
  isInside = false;
  readonly #key: SearchedKey;
  /** How many bytes of the key the last chunk ended with. */
  #matched = 0;
  #next: 'key' | 'colon' | 'value' = 'key';
  /** The first byte of the value. */
  #opening = 0;
  #depth = 0;
  #inString = false;
  #isEscaped = false;
  /** How many bytes of a line's `data:` have come, where a colon or value may follow it. */
  #fieldMatched = 0;

  constructor(key: SearchedKey) {
    this.#key = key;
  }

  /**
   * Searches on from `start`.
   * @returns the index where a value begins, or, inside a value, where it has ended; the length of the bytes when neither is in them
   */
  next(bytes: Buffer, start: number): number {
    if (this.isInside)
      return this.#opening === openBracket ? this.#findBracket(bytes, start) : this.#findEnd(bytes, start);
    let at = start;
    while (at < bytes.length && !this.isInside) {
      at = this.#next === 'key' ? this.#findKey(bytes, at) : this.#findValue(bytes, at);
    }
    return at;
  }

  /** Leaves the value and looks for the key again. */
  giveUp(): void {
    this.isInside = false;
    this.#next = 'key';
  }

  /** @returns the index to continue from */
  #findKey(bytes: Buffer, start: number): number {
    const { bytes: key } = this.#key;
    let at = start;
    for (; this.#matched > 0 && at < bytes.length; at += 1) {
      if (bytes[at] !== key[this.#matched]) this.#matched = 0;
      if (this.#matched === 0) break;
      this.#matched += 1;
      if (this.#matched === key.length) return this.#foundKey(at + 1);
    }
    if (this.#matched > 0) return bytes.length;
    const index = bytes.indexOf(key, at);
    if (index !== -1) return this.#foundKey(index + key.length);
    // the chunk may end inside the key: its only quotes are at its ends, so only the last quote can begin it
    const tail = bytes.lastIndexOf(quote);
    const length = bytes.length - tail;
    if (tail >= at && length < key.length && key.compare(bytes, tail, bytes.length, 0, length) === 0) {
      this.#matched = length;
    }
    return bytes.length;
  }

  #foundKey(end: number): number {
    this.#matched = 0;
    this.#fieldMatched = 0;
    this.#next = 'colon';
    return end;
  }

  /** @returns the index to continue from */
  #findValue(bytes: Buffer, start: number): number {
    let at = start;
    for (; at < bytes.length; at += 1) {
      if (bytes[at] === dataField[this.#fieldMatched]) this.#fieldMatched = (this.#fieldMatched + 1) % dataField.length;
      else if (this.#fieldMatched > 0 || !isSpace(bytes[at])) break;
    }
    if (at === bytes.length) return at;
    const byte = bytes[at] as number;
    if (this.#next === 'colon' && byte === colon) {
      this.#next = 'value';
      return at + 1;
    }
    if (this.#next === 'value' && this.#key.openings.includes(byte)) this.#enter(byte);
    this.#next = 'key';
    return at;
  }

  #enter(opening: number): void {
    this.isInside = true;
    this.#opening = opening;
    this.#depth = 0;
    this.#inString = false;
    this.#isEscaped = false;
  }

  #findBracket(bytes: Buffer, start: number): number {
    const index = bytes.indexOf(closeBracket, start);
    return index === -1 ? bytes.length : this.#leave(index + 1);
  }

  #findEnd(bytes: Buffer, start: number): number {
    for (let i = start; i < bytes.length; i += 1) {
      const byte = bytes[i];
      if (this.#isEscaped) this.#isEscaped = false;
      else if (this.#inString) {
        if (byte === backslash) this.#isEscaped = true;
        else if (byte === quote) {
          this.#inString = false;
          if (this.#depth === 0) return this.#leave(i + 1);
        }
      } else if (byte === quote) this.#inString = true;
      else if (byte === openBrace) this.#depth += 1;
      else if (byte === closeBrace && --this.#depth === 0) return this.#leave(i + 1);
    }
    return bytes.length;
  }

  #leave(end: number): number {
    this.isInside = false;
    return end;
  }
}
