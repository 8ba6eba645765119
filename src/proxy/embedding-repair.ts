import { OutboundError } from '../outbound/outbound-error.ts';

const key = Buffer.from('"embedding"');
const openBracket = 0x5b;
const closeBracket = 0x5d;
/** The largest vector that is held until it is whole. Bytes; 1 MiB is some 50,000 dimensions. */
const vectorLimit = 1024 * 1024;

/** A vector, written as JSON, as a JSON string with the base64 of its little-endian 32-bit floats. */
function toBase64(vector: string): string {
  try {
    const numbers = JSON.parse(vector) as number[];
    const bytes = Buffer.alloc(numbers.length * 4);
    for (const [i, number] of numbers.entries()) bytes.writeFloatLE(number, i * 4);
    return `"${bytes.toString('base64')}"`;
  } catch (cause) {
    throw new OutboundError('invalid_response', 'an embedding is no list of numbers', false, { cause });
  }
}

/** The index of the value after the key at `at`; -1 when more bytes are needed, -2 when it is no key. */
function valueIndex(bytes: Buffer, at: number): number {
  let i = at + key.length;
  let colons = 0;
  for (; i < bytes.length; i += 1) {
    const byte = bytes[i];
    if (byte === 0x3a && colons === 0) colons = 1;
    else if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return colons === 1 ? i : -2;
  }
  return -1;
}

/**
 * Turns vectors of numbers into base64 in an answer that passes by, one vector at a time, and leaves every other byte
 * alone. OpenAI's clients ask for base64 without being told to and read a list of numbers as zeros; many upstreams
 * answer numbers all the same.
 */
export class EmbeddingRepair {
  #kept: Buffer = Buffer.alloc(0);

  /** @throws OutboundError when a vector is no list of numbers or larger than 1 MiB */
  push(chunk: Buffer): Buffer[] {
    const bytes = this.#kept.length === 0 ? chunk : Buffer.concat([this.#kept, chunk]);
    const out: Buffer[] = [];
    let from = 0;
    let at = bytes.indexOf(key);
    while (at !== -1) {
      const value = valueIndex(bytes, at);
      if (value === -1) return this.#keep(bytes, from, at, out);
      if (value >= 0 && bytes[value] === openBracket) {
        const end = bytes.indexOf(closeBracket, value);
        if (end === -1) return this.#keep(bytes, from, at, out);
        out.push(bytes.subarray(from, value), Buffer.from(toBase64(bytes.toString('latin1', value, end + 1))));
        from = end + 1;
      }
      at = bytes.indexOf(key, Math.max(from, at + key.length));
    }
    return this.#keep(bytes, from, Math.max(from, bytes.length - key.length), out);
  }

  end(): Buffer[] {
    return this.#kept.length === 0 ? [] : [this.#kept];
  }

  #keep(bytes: Buffer, from: number, at: number, out: Buffer[]): Buffer[] {
    if (bytes.length - at > vectorLimit)
      throw new OutboundError('invalid_response', 'an embedding is too large to be repaired');
    if (at > from) out.push(bytes.subarray(from, at));
    this.#kept = bytes.subarray(at);
    return out;
  }
}
