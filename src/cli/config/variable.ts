import type { Reader } from './parsers.ts';

/** One environment variable: what parses it, what `--help` and docs/configuration.md say about it. */
export interface Variable<T> {
  readonly meaning: string;
  readonly reader: Reader<T>;
  /** In words; empty where there is none. */
  readonly default: string;
  readonly example: string;
  /** Never repeated in an error. */
  readonly secret?: true;
}

/** Keeps the type of what the variable is read as. */
export function variable<T>(description: Variable<T>): Variable<T> {
  return description;
}
