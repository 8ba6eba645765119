const noBytes: Buffer = Buffer.alloc(0);

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
