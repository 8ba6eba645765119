import { searchedKey, ValueReader } from '../http/json/search.ts';
import { OutboundError } from '../outbound/outbound-error.ts';

/** The largest vector that is held until it is whole. Bytes; 1 MiB is about 50,000 dimensions. */
const vectorLimit = 1024 * 1024;
const bytesOfFloat = 4;
const vectors = searchedKey('embedding', '[');

/** A vector as a JSON string with the base64 of its little-endian 32-bit floats. */
function toBase64(vector: unknown): Buffer {
  if (!Array.isArray(vector)) throw new OutboundError('invalid_response', 'an embedding is no list of numbers');
  const bytes = Buffer.allocUnsafe(vector.length * bytesOfFloat);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let i = 0; i < vector.length; i += 1) {
    const number: unknown = vector[i];
    if (typeof number !== 'number') {
      const cause = new TypeError(`number ${i} is a ${typeof number}`);
      throw new OutboundError('invalid_response', 'an embedding is no list of numbers', { cause });
    }
    view.setFloat32(i * bytesOfFloat, number, true);
  }
  return Buffer.from(`"${bytes.toString('base64')}"`);
}

/**
 * Turns vectors of numbers into base64 while an answer is sent, one vector at a time, and leaves every other byte alone.
 * OpenAI's clients ask for base64 by default, and read a list of numbers as zeros; many upstreams answer numbers
 * nevertheless.
 */
export class EmbeddingRepair {
  #out: Buffer[] = [];
  readonly #reader = new ValueReader(
    vectors,
    vectorLimit,
    (vector) => this.#out.push(toBase64(vector)),
    (bytes) => this.#out.push(bytes),
  );

  /** @throws OutboundError when a vector is no list of numbers or larger than 1 MiB */
  push(chunk: Buffer): Buffer[] {
    this.#out = [];
    this.#reader.read(chunk);
    if (this.#reader.hasLost) throw new OutboundError('invalid_response', 'an embedding is too large to be repaired');
    return this.#out;
  }

  /** A vector that breaks off is passed on unchanged. */
  end(): Buffer[] {
    const rest = this.#reader.rest();
    return rest.length === 0 ? [] : [rest];
  }
}

/** A whole answer with its vectors repaired. @throws OutboundError */
export function repaired(answer: Buffer): Buffer {
  const repair = new EmbeddingRepair();
  return Buffer.concat([...repair.push(answer), ...repair.end()]);
}
