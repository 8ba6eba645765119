import { ByteBuffer, JsonSearch, searchedKey } from '../http/json/search.ts';
import { OutboundError } from '../outbound/outbound-error.ts';

/** The largest vector that is held until it is whole. Bytes; 1 MiB is about 50,000 dimensions. */
const vectorLimit = 1024 * 1024;
const bytesOfFloat = 4;
const vectors = searchedKey('embedding', '[');

/** A vector, written as JSON, as a JSON string with the base64 of its little-endian 32-bit floats. */
function toBase64(vector: Buffer): string {
  try {
    const numbers = JSON.parse(vector.toString('latin1')) as unknown[];
    const bytes = Buffer.allocUnsafe(numbers.length * bytesOfFloat);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    for (let i = 0; i < numbers.length; i += 1) {
      const number = numbers[i];
      if (typeof number !== 'number') throw new TypeError(`number ${i} is a ${typeof number}`);
      view.setFloat32(i * bytesOfFloat, number, true);
    }
    return `"${bytes.toString('base64')}"`;
  } catch (cause) {
    throw new OutboundError('invalid_response', 'an embedding is no list of numbers', { cause });
  }
}

/**
 * Turns vectors of numbers into base64 while an answer is sent, one vector at a time, and leaves every other byte alone.
 * OpenAI's clients ask for base64 by default, and read a list of numbers as zeros; many upstreams answer numbers
 * nevertheless.
 */
export class EmbeddingRepair {
  readonly #search = new JsonSearch(vectors);
  readonly #held = new ByteBuffer(vectorLimit);

  /** @throws OutboundError when a vector is no list of numbers or larger than 1 MiB */
  push(chunk: Buffer): Buffer[] {
    const search = this.#search;
    const out: Buffer[] = [];
    for (let at = 0; at < chunk.length; ) {
      const wasInside = search.isInside;
      const end = search.next(chunk, at);
      const part = chunk.subarray(at, end);
      if (!wasInside) {
        if (part.length > 0) out.push(part);
      } else if (!search.isInside) out.push(Buffer.from(toBase64(this.#held.take(part))));
      else if (!this.#held.add(part)) {
        throw new OutboundError('invalid_response', 'an embedding is too large to be repaired');
      }
      at = end;
    }
    return out;
  }

  /** A vector that breaks off is passed on unchanged. */
  end(): Buffer[] {
    const rest = this.#held.take();
    return rest.length === 0 ? [] : [rest];
  }
}

/** A whole answer with its vectors repaired. @throws OutboundError */
export function repaired(answer: Buffer): Buffer {
  const repair = new EmbeddingRepair();
  return Buffer.concat([...repair.push(answer), ...repair.end()]);
}
