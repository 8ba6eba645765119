import { hasWriteConcernError } from '../unavailable.ts';

const duplicateKey = 11_000;

interface ServerError {
  readonly code?: unknown;
  /** The keys of the unique index. */
  readonly keyPattern?: Readonly<Record<string, unknown>>;
}

interface WriteError {
  readonly code: unknown;
  readonly index: number;
}

interface BulkError {
  readonly writeErrors?: WriteError | readonly WriteError[];
}

/**
 * Whether a write met a document with the same unique key (MongoDB's error 11000).
 * @param key a key that the index must have. @default any index
 */
export function isDuplicateKey(error: unknown, key?: string): boolean {
  const { code, keyPattern } = error as ServerError;
  return code === duplicateKey && (key === undefined || keyPattern?.[key] !== undefined);
}

/**
 * The failures of an unordered bulk write, by index; everything else in it is written.
 * @throws the error itself if the whole write failed, or is not confirmed
 */
export function failuresIn(error: unknown): Map<number, unknown> {
  const failures = [(error as BulkError).writeErrors ?? []].flat();
  if (failures.length === 0 || hasWriteConcernError(error)) throw error;
  return new Map(failures.map((failure) => [failure.index, failure]));
}

/**
 * The indexes of the documents in a bulk write that met a duplicate key.
 * @throws the error itself if anything else failed, or the write is not confirmed
 */
export function duplicatesIn(error: unknown): Set<number> {
  const failures = failuresIn(error);
  if ([...failures.values()].some((failure) => !isDuplicateKey(failure))) throw error;
  return new Set(failures.keys());
}
