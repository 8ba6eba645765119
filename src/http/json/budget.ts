import { GatewayError } from '../../errors.ts';

/** How deep JSON may nest: more than any real body needs, and far less than BSON (200) and recursion allow. */
export const maxDepth = 100;
/** Keys, strings, objects, arrays and literals that a body may have. */
const maxParts = 1_000_000;
/** Numbers that a body may have: one of the largest size may consist of tokens. */
const maxNumbers = 8_000_000;

/** About how many bytes V8 takes for each. */
export const weights = { container: 64, key: 24, string: 24, fraction: 32, scalar: 8 } as const;
/** A tree may always take this many bytes, however small the body is. */
const smallTree = 4 * 1024 * 1024;
/** A tree may never take more bytes, however large the body is, because it is validated in one turn of the event loop. */
const largestTree = 8 * 1024 * 1024;

/** The error for a JSON body that would cost too much to read. */
export function tooLarge(message: string): GatewayError {
  return new GatewayError('request_too_large', message);
}

export function nestsTooDeep(): GatewayError {
  return new GatewayError('invalid_json', `The body nests deeper than ${maxDepth} levels`);
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

/**
 * Refuses a parsed body that would cost too much to serialise again.
 * @throws GatewayError `invalid_json` when it nests deeper than 100 levels, `request_too_large` when it has too many values
 */
export function checkTree(value: unknown): void {
  let remaining = maxParts;
  const check = (node: unknown, levels: number): void => {
    remaining -= 1;
    if (remaining < 0) throw tooLarge(`The body has more than ${maxParts} values`);
    if (typeof node !== 'object' || node === null) return;
    if (levels === 0) throw nestsTooDeep();
    if (Array.isArray(node)) for (const item of node) check(item, levels - 1);
    else for (const key in node) check((node as Record<string, unknown>)[key], levels - 1);
  };
  check(value, maxDepth);
}
