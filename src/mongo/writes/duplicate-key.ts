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
  readonly result?: { getWriteConcernError?(): unknown };
}

/**
 * Whether a write met a document that has the same unique key already (MongoDB's error 11000).
 * @param key one that the index must have; by default any index will do
 */
export function isDuplicateKey(error: unknown, key?: string): boolean {
  const { code, keyPattern } = error as ServerError;
  return code === duplicateKey && (key === undefined || keyPattern?.[key] !== undefined);
}

/**
 * What went wrong in an unordered bulk write, by place; everything else of it is written.
 * @throws the error when it went wrong as a whole, or nobody knows whether the others will stay
 */
export function failuresIn(error: unknown): Map<number, unknown> {
  const { writeErrors, result } = error as BulkError;
  const failures = [writeErrors ?? []].flat();
  const isUnconfirmed = result?.getWriteConcernError?.() !== undefined;
  if (failures.length === 0 || isUnconfirmed) throw error;
  return new Map(failures.map((one) => [one.index, one]));
}

/**
 * The places in a bulk write of what met such a document.
 * @throws the error when anything else went wrong, or nobody knows whether the others will stay
 */
export function duplicatesIn(error: unknown): Set<number> {
  const failures = failuresIn(error);
  if ([...failures.values()].some((one) => !isDuplicateKey(one))) throw error;
  return new Set(failures.keys());
}
