import { GatewayError } from '../../../errors.ts';
import { largestTree, maxNumbers, maxParts, smallTree, weights } from './limits.ts';

/** The error for a JSON body that would cost too much to read. */
export function tooLarge(message: string): GatewayError {
  return new GatewayError('request_too_large', message);
}

/** Counts the values of a JSON text, and the memory that its parsed tree would take, before the tree exists. */
export class JsonBudget {
  #partsLeft = maxParts;
  /** Numbers counted so far. */
  numbers = 0;
  #weightLeft: number;

  /** @param length of the text. Bytes. */
  constructor(length: number) {
    this.#weightLeft = Math.min(largestTree, Math.max(smallTree, 2 * length));
  }

  /** Counts a key, or a value that is not a number. @throws GatewayError `request_too_large` */
  countPart(): void {
    this.#partsLeft -= 1;
    if (this.#partsLeft < 0) throw tooLarge(`The body has more than ${maxParts} keys and values`);
  }

  /** @throws GatewayError `request_too_large` */
  countNumber(): void {
    this.numbers += 1;
    if (this.numbers > maxNumbers) throw tooLarge(`The body has more than ${maxNumbers} numbers`);
  }

  /** Counts memory that the tree takes. @param weight bytes @throws GatewayError `request_too_large` */
  spend(weight: number): void {
    this.#weightLeft -= weight;
    if (this.#weightLeft < 0) throw tooLarge('The body has too many small values for its length');
  }

  /** Counts the memory of an item of an array. */
  spendItem(value: unknown): void {
    this.spend(typeof value === 'number' && !Number.isInteger(value) ? weights.fraction : weights.scalar);
  }
}
