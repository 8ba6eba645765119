import { ByteBuffer } from '../proxy/byte-buffer.ts';

const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;
const comma = 0x2c;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;

/**
 * Reads some members of a JSON object out of its bytes, however they are split into chunks, without holding the rest. Objects
 * inside it may have members of the same names, and so may texts in it: they count for nothing.
 */
export class JsonMembers {
  /** The values of these members. */
  readonly values = new Map<string, unknown>();
  /** The lengths of those that are too large to be held. Bytes. */
  readonly lengths = new Map<string, number>();
  /** Whether the object has come to its end. */
  isWhole = false;
  readonly #names: readonly string[];
  readonly #held: ByteBuffer;
  #depth = 0;
  #inString = false;
  #isEscaped = false;
  /** The member whose value comes; `undefined` where its key comes, or where it is not wanted. */
  #name: string | undefined;
  #isHeld = true;
  #length = 0;

  /** @param keepLimit the most that is held of a member. Bytes. */
  constructor(names: readonly string[], keepLimit: number) {
    this.#names = names;
    this.#held = new ByteBuffer(keepLimit);
  }

  read(chunk: Buffer): void {
    /** Where the part of the present member begins that is not held yet. */
    let from = 0;
    for (let i = 0; i < chunk.length && !this.isWhole; i += 1) {
      if (this.#inString) {
        i = this.#throughString(chunk, i);
        continue;
      }
      const byte = chunk[i];
      if (byte === quote) this.#inString = true;
      else if (byte === openBrace || byte === openBracket) {
        this.#depth += 1;
        if (this.#depth === 1) from = i + 1;
      } else if (byte === closeBrace || byte === closeBracket) {
        this.#depth -= 1;
        if (this.#depth <= 0) this.#endMember(chunk.subarray(from, i));
        this.isWhole = this.#depth <= 0;
      } else if (this.#depth === 1 && byte === colon) {
        this.#endKey(chunk.subarray(from, i));
        from = i + 1;
      } else if (this.#depth === 1 && byte === comma) {
        this.#endMember(chunk.subarray(from, i));
        from = i + 1;
      }
    }
    if (this.#depth > 0) this.#hold(chunk.subarray(from));
  }

  /** @returns the index of the closing quote, or of the last byte */
  #throughString(chunk: Buffer, start: number): number {
    for (let i = start; i < chunk.length; i += 1) {
      const byte = chunk[i];
      if (this.#isEscaped) this.#isEscaped = false;
      else if (byte === backslash) this.#isEscaped = true;
      else if (byte === quote) {
        this.#inString = false;
        return i;
      }
    }
    return chunk.length;
  }

  #hold(part: Buffer): void {
    this.#length += part.length;
    if (this.#isHeld) this.#isHeld = this.#held.add(part);
  }

  /** Takes out what is held of a key or a value; `undefined` where that is not JSON, or was not held. */
  #take(rest: Buffer): unknown {
    this.#hold(rest);
    const bytes = this.#held.take();
    if (!this.#isHeld) return undefined;
    try {
      return JSON.parse(bytes.toString());
    } catch {
      return undefined;
    }
  }

  #endKey(rest: Buffer): void {
    const key = this.#take(rest);
    this.#name = this.#names.find((name) => name === key);
    this.#isHeld = this.#name !== undefined;
    this.#length = 0;
  }

  #endMember(rest: Buffer): void {
    const name = this.#name;
    const value = this.#take(rest);
    if (name !== undefined) {
      if (this.#isHeld) this.values.set(name, value);
      else this.lengths.set(name, this.#length);
    }
    this.#name = undefined;
    this.#isHeld = true;
    this.#length = 0;
  }
}
