import { setImmediate as nextTurn } from 'node:timers/promises';

/** A shorter chunk is copied, because it may be a slice of a buffer many times as long. */
const worthKeeping = 32 * 1024;
const blockLength = 64 * 1024;
/** How many bytes are copied before the event loop runs again: that takes some milliseconds, because the memory is new. */
const copiedInOneTurn = 2 * 1024 * 1024;

/** Collects the chunks of a body without holding much more memory than it has bytes, however small they are. */
export class Chunks {
  length = 0;
  readonly #parts: Buffer[] = [];
  /** Where short chunks are copied to: the rest of a block, and how much of it is filled. */
  #block: Buffer | undefined;
  #filled = 0;

  add(chunk: Buffer): void {
    const isFirst = this.length === 0;
    this.length += chunk.length;
    // most bodies are one chunk
    if (isFirst || chunk.length >= worthKeeping) {
      this.#endPart();
      this.#parts.push(chunk);
    } else {
      this.#copy(chunk);
    }
  }

  /** Joins everything, once. A long body is copied in steps, and none of it is in memory twice. */
  async joined(): Promise<Buffer> {
    this.#endPart();
    const parts = this.#parts.splice(0).reverse();
    if (parts.length === 1) return parts[0] as Buffer;
    const whole = Buffer.allocUnsafeSlow(this.length);
    let at = 0;
    let turnEnd = copiedInOneTurn;
    for (let part = parts.pop(); part; part = parts.pop()) {
      at += part.copy(whole, at);
      if (at < turnEnd) continue;
      turnEnd = at + copiedInOneTurn;
      await nextTurn();
    }
    return whole;
  }

  #copy(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) {
      this.#block ??= Buffer.allocUnsafeSlow(blockLength);
      const copied = chunk.copy(this.#block, this.#filled, at);
      at += copied;
      this.#filled += copied;
      if (this.#filled === this.#block.length) this.#endPart();
    }
  }

  #endPart(): void {
    if (!this.#block || this.#filled === 0) return;
    this.#parts.push(this.#block.subarray(0, this.#filled));
    const rest = this.#block.subarray(this.#filled);
    this.#block = rest.length > 0 ? rest : undefined;
    this.#filled = 0;
  }
}
