import { GatewayError } from '../../../errors.ts';
import { largestTree, maxNumbers, maxParts, smallTree, weights } from './limits.ts';

/** @returns what refuses a JSON body whose cost would be out of proportion */
export function tooLarge(message: string): GatewayError {
  return new GatewayError('request_too_large', message);
}

/** Counts what a JSON text has and weighs what a tree of it takes, before that exists. */
export class JsonBudget {
  #partsLeft = maxParts;
  /** How many there were. */
  numbers = 0;
  #weightLeft: number;

  /** @param length of the text. Bytes. */
  constructor(length: number) {
    this.#weightLeft = Math.min(largestTree, Math.max(smallTree, 2 * length));
  }

  /** A key or a value that is no number. @throws GatewayError `request_too_large` */
  countPart(): void {
    this.#partsLeft -= 1;
    if (this.#partsLeft < 0) throw tooLarge(`The body has more than ${maxParts} keys and values`);
  }

  /** @throws GatewayError `request_too_large` */
  countNumber(): void {
    this.numbers += 1;
    if (this.numbers > maxNumbers) throw tooLarge(`The body has more than ${maxNumbers} numbers`);
  }

  /** Something that the tree has. @param weight bytes @throws GatewayError `request_too_large` */
  spend(weight: number): void {
    this.#weightLeft -= weight;
    if (this.#weightLeft < 0) throw tooLarge('The body has too many small values for its length');
  }

  /** A value that an array keeps. */
  spendItem(value: unknown): void {
    this.spend(typeof value === 'number' && !Number.isInteger(value) ? weights.fraction : weights.scalar);
  }
}
