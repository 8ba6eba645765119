const openBrace = 0x7b;
const closeBrace = 0x7d;
const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** Finds where an object or a string ends, looking at each byte once, however the value is cut. */
class ValueScan {
  #depth = 0;
  #inString = false;
  #isEscaped = false;

  /** Goes on at `start`. @returns the index after the value; -1 when it is not complete */
  end(bytes: Buffer, start: number): number {
    for (let i = start; i < bytes.length; i += 1) {
      const byte = bytes[i];
      if (this.#isEscaped) this.#isEscaped = false;
      else if (this.#inString) {
        if (byte === backslash) this.#isEscaped = true;
        else if (byte === quote) {
          this.#inString = false;
          if (this.#depth === 0) return i + 1;
        }
      } else if (byte === quote) this.#inString = true;
      else if (byte === openBrace) this.#depth += 1;
      else if (byte === closeBrace && --this.#depth === 0) return i + 1;
    }
    return -1;
  }
}

/** The bytes of a value that is not complete, in one buffer that doubles: each byte is copied a few times at most. */
class KeptBytes {
  #buffer = Buffer.alloc(0);
  length = 0;

  add(bytes: Buffer): void {
    const length = this.length + bytes.length;
    if (length > this.#buffer.length) {
      const grown = Buffer.allocUnsafe(Math.max(length, 2 * this.#buffer.length));
      this.#buffer.copy(grown, 0, 0, this.length);
      this.#buffer = grown;
    }
    this.#buffer.set(bytes, this.length);
    this.length = length;
  }

  /** All of it as text, and what follows it. */
  textWith(rest: Buffer): string {
    if (this.length === 0) return rest.toString();
    return Buffer.concat([this.#buffer.subarray(0, this.length), rest]).toString();
  }
}

/** A value that is being read. */
interface Reading {
  readonly scan: ValueScan;
  readonly kept: KeptBytes;
}

/**
 * Reads the objects and strings that stand under one key out of bytes that pass by, JSON or an event stream, however they
 * are cut, without parsing anything else: inside a JSON string the quotes of the key would be escaped, so the bytes can only
 * be a key. What it costs grows with the bytes alone, not with the number of pieces that a value comes in.
 */
export class ValueReader {
  readonly #key: Buffer;
  readonly #keepLimit: number;
  readonly #onValue: (value: unknown) => void;
  /** How much of the key has been seen, when it is cut. */
  #matched = 0;
  /** What is expected after the key; `undefined` while the key is looked for. */
  #next: 'colon' | 'value' | Reading | undefined;
  /** Whether some value was too large to be kept. */
  hasLost = false;

  /** @param keepLimit what may be kept while a value is not complete. Bytes. */
  constructor(key: string, keepLimit: number, onValue: (value: unknown) => void) {
    this.#key = Buffer.from(`"${key}"`);
    this.#keepLimit = keepLimit;
    this.#onValue = onValue;
  }

  read(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      if (this.#next === undefined) at = this.#findKey(bytes, at);
      else if (typeof this.#next === 'string') at = this.#findValue(bytes, at, this.#next);
      else at = this.#readValue(bytes, at, this.#next);
    }
  }

  /** @returns where to go on, as the other two steps do */
  #findKey(bytes: Buffer, start: number): number {
    const key = this.#key;
    let at = start;
    for (; this.#matched > 0 && at < bytes.length; at += 1) {
      if (bytes[at] !== key[this.#matched]) this.#matched = 0;
      if (this.#matched === 0) break;
      this.#matched += 1;
      if (this.#matched === key.length) return this.#foundKey(at + 1);
    }
    if (this.#matched > 0) return bytes.length;
    const found = bytes.indexOf(key, at);
    if (found !== -1) return this.#foundKey(found + key.length);
    // the key itself may be cut: it has quotes at its ends alone, so only the last quote can begin it
    const tail = bytes.lastIndexOf(quote);
    const length = bytes.length - tail;
    if (tail >= at && length < key.length && key.compare(bytes, tail, bytes.length, 0, length) === 0) {
      this.#matched = length;
    }
    return bytes.length;
  }

  #foundKey(end: number): number {
    this.#matched = 0;
    this.#next = 'colon';
    return end;
  }

  #findValue(bytes: Buffer, start: number, next: 'colon' | 'value'): number {
    let at = start;
    while (isSpace(bytes[at])) at += 1;
    if (at === bytes.length) return at;
    const byte = bytes[at];
    if (next === 'colon' && byte === colon) {
      this.#next = 'value';
      return at + 1;
    }
    const isValue = next === 'value' && (byte === openBrace || byte === quote);
    this.#next = isValue ? { scan: new ValueScan(), kept: new KeptBytes() } : undefined;
    return at;
  }

  #readValue(bytes: Buffer, start: number, { scan, kept }: Reading): number {
    const end = scan.end(bytes, start);
    if (end !== -1) {
      this.#next = undefined;
      this.#tell(kept.textWith(bytes.subarray(start, end)));
      return end;
    }
    const rest = bytes.subarray(start);
    if (kept.length + rest.length <= this.#keepLimit) kept.add(rest);
    else {
      this.hasLost = true;
      this.#next = undefined;
    }
    return bytes.length;
  }

  #tell(text: string): void {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return;
    }
    this.#onValue(value);
  }
}
