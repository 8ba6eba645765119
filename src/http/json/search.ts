import { ByteBuffer, isSpace, noBytes, StructureWalk } from './tokens.ts';

const quote = 0x22;
const colon = 0x3a;
const comma = 0x2c;
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
  /** The same without the first of them, which is the most frequent byte of JSON: it is found in a third of the time, or less. */
  readonly rest: Buffer;
  /** The first bytes of the values to find; other values are skipped. */
  readonly openings: readonly number[];
  /** Whether lists have numbers alone: such a list ends at the first bracket that closes. */
  readonly listsNumbers: boolean;
}

/**
 * @param openings `{` for objects, `"` for strings, `[` for lists
 * @param listsNumbers whether lists have numbers alone. @default true
 */
export function searchedKey(name: string, openings: string, listsNumbers = true): SearchedKey {
  const bytes = Buffer.from(`"${name}"`);
  return { bytes, rest: bytes.subarray(1), openings: [...Buffer.from(openings)], listsNumbers };
}

/** Where the JSON of an event continues in its next `data:` line (WHATWG HTML, 9.2.6); inside a JSON string no line can end. */
const nextDataLine = /(?:\r\n|\n|\r)data: ?/g;

/** `undefined` where it is no JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {}
  try {
    return JSON.parse(text.replace(nextDataLine, '\n'));
  } catch {
    return undefined;
  }
}

/**
 * Reads the values of one key out of JSON or an event stream, chunk by chunk, wherever they stand. It leaps from key to key: inside a
 * JSON string the quotes of the key would be escaped, so the bytes can only be a key. A scan of all tokens would take more than 1.3 times the
 * CPU for an answer of 1 KB, 5 times for images in base64 and 40 times for vectors. The cost grows with the bytes alone, not with the number of
 * chunks of a value.
 */
export class ValueReader {
  /** Whether some value was too large to be held. */
  hasLost = false;
  readonly #key: SearchedKey;
  readonly #keepLimit: number;
  #held: ByteBuffer | undefined;
  readonly #onValue: (value: unknown) => void;
  readonly #onOther: ((bytes: Buffer) => void) | undefined;
  #next: 'key' | 'colon' | 'value' | 'end of value' = 'key';
  /** How many bytes have come of the key, with which the last chunk ended, or of a line's `data:`, which a colon or value may follow. */
  #matched = 0;
  /** Goes through the present value; `undefined` in a list of numbers. */
  #walk: StructureWalk | undefined;

  /**
   * @param keepLimit the most that is held of an incomplete value. Bytes.
   * @param onValue gets `undefined` where the value is no JSON
   * @param onOther gets all other bytes. @default they are dropped
   */
  constructor(
    key: SearchedKey,
    keepLimit: number,
    onValue: (value: unknown) => void,
    onOther?: (bytes: Buffer) => void,
  ) {
    this.#key = key;
    this.#keepLimit = keepLimit;
    this.#onValue = onValue;
    this.#onOther = onOther;
  }

  read(bytes: Buffer): void {
    let other = 0;
    for (let at = 0; at < bytes.length; ) {
      if (this.#next === 'key') at = this.#findKey(bytes, at);
      else if (this.#next !== 'end of value') at = this.#findValue(bytes, at);
      else {
        if (at > other) this.#onOther?.(bytes.subarray(other, at));
        at = this.#readValue(bytes, at);
        other = at;
      }
    }
    if (other < bytes.length) this.#onOther?.(bytes.subarray(other));
  }

  /** What has come of a value whose end has not. */
  rest(): Buffer {
    return this.#held?.take() ?? noBytes;
  }

  /** @returns the index behind the value */
  #readValue(bytes: Buffer, start: number): number {
    const walk = this.#walk;
    let last = walk ? walk.next(bytes, start) : bytes.indexOf(closeBracket, start);
    while (walk && walk.depth > 0 && last < bytes.length) last = walk.next(bytes, last + 1);
    if (last === -1 || last === bytes.length) {
      // most values are whole in one chunk
      this.#held ??= new ByteBuffer(this.#keepLimit);
      const hasRoom = this.#held.add(bytes.subarray(start));
      if (!hasRoom) this.#next = 'key';
      this.hasLost ||= !hasRoom;
      return bytes.length;
    }
    this.#next = 'key';
    const end = bytes.subarray(start, last + 1);
    this.#onValue(parsed((this.#held?.take(end) ?? end).toString()));
    return last + 1;
  }

  /** @returns the index to continue from */
  #findKey(bytes: Buffer, start: number): number {
    const { bytes: key, rest } = this.#key;
    let end = -1;
    if (this.#matched > 0) {
      const missing = key.subarray(this.#matched, this.#matched + bytes.length);
      if (bytes.subarray(0, missing.length).equals(missing)) {
        this.#matched += missing.length;
        if (this.#matched < key.length) return bytes.length;
        end = missing.length;
      }
    }
    for (let index = start; end === -1 && index !== -1; ) {
      index = bytes.indexOf(rest, index + 1);
      if (index > 0 && bytes[index - 1] === quote) end = index + rest.length;
    }
    this.#matched = 0;
    if (end !== -1) {
      this.#next = 'colon';
      return end;
    }
    // the chunk may end inside the key: its only quotes are at its ends, so only the last quote can begin it
    let tail = bytes.length - 1;
    while (tail >= start && tail > bytes.length - key.length && bytes[tail] !== quote) tail -= 1;
    let length = 0;
    while (tail >= start && bytes[tail + length] === key[length]) length += 1;
    if (tail + length === bytes.length) this.#matched = length;
    return bytes.length;
  }

  /** @returns the index to continue from */
  #findValue(bytes: Buffer, start: number): number {
    let at = start;
    for (; at < bytes.length; at += 1) {
      if (bytes[at] === dataField[this.#matched]) this.#matched = (this.#matched + 1) % dataField.length;
      else if (this.#matched > 0 || !isSpace(bytes[at])) break;
    }
    if (at === bytes.length) return at;
    const byte = bytes[at] as number;
    if (this.#next === 'colon' && byte === colon) {
      this.#next = 'value';
      return at + 1;
    }
    const isFound = this.#next === 'value' && this.#key.openings.includes(byte);
    if (isFound) this.#walk = byte === openBracket && this.#key.listsNumbers ? undefined : new StructureWalk();
    this.#next = isFound ? 'end of value' : 'key';
    this.#matched = 0;
    return at;
  }
}

/** Which members are read, and who is told of them. */
interface WantedMembers {
  readonly names: readonly string[];
  /** The most that is held of a key or a value. Bytes. */
  readonly keepLimit: number;
  /** A member of the text that is a list: its objects are read, and not the text itself. */
  readonly list?: string;
  /**
   * @param value `undefined` where it is no JSON, or longer than `keepLimit`
   * @param length of the value, with white space around it. Bytes.
   */
  readonly onMember: (name: string, value: unknown, length: number) => void;
  /** An object of the list has come to its end. */
  readonly onItemEnd?: () => void;
  readonly onListEnd?: () => void;
}

/**
 * Reads some members out of a JSON object that comes in chunks, or of the objects of one of its lists, without holding the rest. What has
 * the same name deeper inside, or looks like it in a text, counts for nothing.
 */
export class JsonMembers {
  /** Whether the text has come to its end. */
  isWhole = false;
  readonly #wanted: WantedMembers;
  readonly #walk = new StructureWalk();
  readonly #held: ByteBuffer;
  #isInList = false;
  /** The member whose value comes; `undefined` where its key comes, or where it is not wanted. */
  #name: string | undefined;
  #isHeld = true;
  #length = 0;

  constructor(wanted: WantedMembers) {
    this.#wanted = wanted;
    this.#held = new ByteBuffer(wanted.keepLimit);
  }

  read(chunk: Buffer): void {
    const walk = this.#walk;
    /** Where what is not held yet of the present key or value begins. */
    let from = 0;
    for (let at = walk.next(chunk, 0); at < chunk.length && !this.isWhole; at = walk.next(chunk, at + 1)) {
      if (this.#step(chunk, from, at)) from = at + 1;
    }
    if (walk.depth > 0 && !this.isWhole) this.#hold(chunk, from, chunk.length);
  }

  /** @returns whether a key or a value begins behind the mark at `at` */
  #step(chunk: Buffer, from: number, at: number): boolean {
    const { depth } = this.#walk;
    const { list, onListEnd } = this.#wanted;
    const readDepth = this.#isInList ? 3 : 1;
    const byte = chunk[at];
    if (byte === openBrace || byte === openBracket) {
      if (depth === 2 && byte === openBracket && this.#name !== undefined && this.#name === list) {
        this.#isInList = true;
        this.#begin(undefined, false);
      } else if (depth === 3 && byte === openBrace && this.#isInList) {
        this.#begin(undefined, true);
        return true;
      }
      return depth === 1;
    }
    if (byte === closeBrace || byte === closeBracket) {
      if (this.#isInList && depth === 1) {
        this.#isInList = false;
        onListEnd?.();
      } else if (depth < readDepth) {
        this.#endMember(chunk, from, at);
        if (this.#isInList) {
          this.#begin(undefined, false);
          this.#wanted.onItemEnd?.();
        } else this.isWhole = true;
      }
      return false;
    }
    if (depth !== readDepth) return false;
    if (byte === colon) this.#endKey(chunk, from, at);
    else if (byte === comma) this.#endMember(chunk, from, at);
    else if (this.#name === undefined) return false;
    else {
      // a text ends with its quote, even where nothing more comes
      this.#endMember(chunk, from, at + 1);
      this.#begin(undefined, false);
    }
    return true;
  }

  /** @param isHeld whether what follows is of interest: the next key, or the value of `name` */
  #begin(name: string | undefined, isHeld: boolean): void {
    this.#name = name;
    this.#isHeld = isHeld;
    this.#length = 0;
  }

  #hold(chunk: Buffer, from: number, to: number): void {
    this.#length += to - from;
    if (this.#isHeld) this.#isHeld = this.#held.add(chunk.subarray(from, to));
  }

  /** A key or a value whose rest is in the chunk; `undefined` where it is not JSON, or was not held. */
  #take(chunk: Buffer, from: number, to: number): unknown {
    this.#hold(chunk, from, to);
    if (!this.#isHeld) return undefined;
    try {
      return JSON.parse(this.#held.take().toString());
    } catch {
      return undefined;
    }
  }

  #endKey(chunk: Buffer, from: number, to: number): void {
    const key = this.#take(chunk, from, to);
    const { names, list } = this.#wanted;
    const isSought = list !== undefined && !this.#isInList;
    const name = (isSought ? [list] : names).find((each) => each === key);
    this.#begin(name, name !== undefined && !isSought);
  }

  #endMember(chunk: Buffer, from: number, to: number): void {
    const name = this.#name;
    const value = this.#take(chunk, from, to);
    const length = this.#length;
    this.#begin(undefined, true);
    const isWanted = name !== undefined && (this.#isInList || this.#wanted.list === undefined);
    if (isWanted) this.#wanted.onMember(name, value, length);
  }
}
