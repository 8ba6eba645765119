import { ByteBuffer, JsonSearch, type SearchedKey } from '../../http/json/search.ts';

/** Where the JSON of an event continues in its next `data:` line (WHATWG HTML, 9.2.6); inside a JSON string no line can end. */
const nextDataLine = /(?:\r\n|\n|\r)data: ?/g;

/** @throws SyntaxError */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return JSON.parse(text.replace(nextDataLine, '\n'));
  }
}

/**
 * Reads the values of one key out of an answer's bytes, however they are split into chunks. The cost grows with the bytes
 * alone, not with the number of chunks of a value.
 */
export class ValueReader {
  readonly #search: JsonSearch;
  readonly #held: ByteBuffer;
  readonly #onValue: (value: unknown) => void;
  /** Whether some value was too large to be held. */
  hasLost = false;

  /** @param keepLimit the most that is held of an incomplete value. Bytes. */
  constructor(key: SearchedKey, keepLimit: number, onValue: (value: unknown) => void) {
    this.#search = new JsonSearch(key);
    this.#held = new ByteBuffer(keepLimit);
    this.#onValue = onValue;
  }

  read(bytes: Buffer): void {
    const search = this.#search;
    for (let at = 0; at < bytes.length; ) {
      const wasInside = search.isInside;
      const end = search.next(bytes, at);
      if (wasInside) this.#take(bytes.subarray(at, end));
      at = end;
    }
  }

  #take(part: Buffer): void {
    if (!this.#search.isInside) this.#notify(this.#held.take(part).toString());
    else if (!this.#held.add(part)) {
      this.hasLost = true;
      this.#search.giveUp();
    }
  }

  #notify(text: string): void {
    let value: unknown;
    try {
      value = parse(text);
    } catch {
      return;
    }
    this.#onValue(value);
  }
}
