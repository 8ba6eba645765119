import type { Logger } from '../logger.ts';
import { answered } from './with-timeout.ts';

interface Failure {
  readonly name?: unknown;
  readonly code?: unknown;
  readonly errorLabelSet?: ReadonlySet<string>;
  /** Of a bulk operation. */
  readonly result?: { getWriteConcernError?(): unknown };
}

/**
 * Errors that are thrown before anything is sent: the driver's (mongodb 7) for a document that is too large or malformed, BSON's for
 * what it cannot hold (a `RangeError` where a message outgrows its buffer), mongoose's for what its schema refuses, and JavaScript's
 * own for values that are not what they should be.
 */
const unsendable = new Set([
  'BSONError',
  'CastError',
  'MongoInvalidArgumentError',
  'RangeError',
  'StrictModeError',
  'TypeError',
  'ValidationError',
]);

/** The server's codes below 10,000 for what a document or a statement holds (MongoDB's error_codes.yml). */
const refusedContents = new Set([
  2, // BadValue
  9, // FailedToParse
  14, // TypeMismatch
  16, // InvalidLength
  22, // InvalidBSON
  28, // PathNotViable
  40, // ConflictingUpdateOperators
  52, // DollarPrefixedFieldName
  53, // InvalidIdField
  54, // NotSingleValueField
  55, // InvalidDBRef
  56, // EmptyFieldName
  57, // DottedFieldName
  66, // ImmutableField
  121, // DocumentValidationFailure
  257, // TransactionTooLarge: fewer items may fit
  388, // TransactionTooLargeForCache: the same, of a server with little memory; the others' transactions do not count
]);

/** From here on codes are assertions about what was sent (10334: a document too large; 16554, 28664: a value of the wrong type), */
const firstAssertion = 10_000;

/** but for these, which the server kept from its first versions. */
const serverStates = new Set([
  10_058, // LegacyNotPrimary
  10_107, // NotWritablePrimary
  11_000, // DuplicateKey: its writer judges it
  11_600, // InterruptedAtShutdown
  11_601, // Interrupted: somebody has ended the operation or its session
  11_602, // InterruptedDueToReplStateChange
  13_388, // StaleConfig
  13_435, // NotPrimaryNoSecondaryOk
  13_436, // NotPrimaryOrSecondary
  14_031, // OutOfDiskSpace
]);

function isRefusedContent({ code, result }: Failure): boolean {
  if (typeof code !== 'number' || result?.getWriteConcernError?.() !== undefined) return false;
  return refusedContents.has(code) || (code >= firstAssertion && !serverStates.has(code));
}

/**
 * Whether a write of several items failed because of what one of them is: written without it, the others succeed. Everything
 * else belongs to the database (the network, no primary, a time-out, a full disk, a conflict) and would fail for each item alone.
 */
export function isItemFailure(error: unknown): boolean {
  const { name, errorLabelSet } = error as Failure;
  if (errorLabelSet?.has('RetryableWriteError') || errorLabelSet?.has('TransientTransactionError')) return false;
  if (unsendable.has(String(name))) return true;
  return (name === 'MongoServerError' || name === 'MongoBulkWriteError') && isRefusedContent(error as Failure);
}

/** What may be logged of a failure of an item: never the message, which quotes what the item holds. */
export function failureName(error: unknown): string {
  const { name, code } = error as Failure;
  return code === undefined ? String(name) : `${name} ${code}`;
}

/** What became of one item. */
export type ItemOutcome<Result> = { readonly result: Result } | { readonly error: unknown };

export interface IsolatedWrite<Item, Result> {
  /**
   * Writes items together; its results stand in the order of the items. What an earlier try may have written must be
   * written again without harm.
   */
  readonly write: (items: readonly Item[], isFirstTry: boolean) => Promise<readonly Result[]>;
  /** How long one write may take. Milliseconds. @default 9_000 */
  readonly within?: number;
}

/**
 * Writes items together. When that fails because of an item, each half is written by itself, and so on until the item is
 * alone: one in n costs 2 log2(n) more writes. What belongs to the database is not multiplied: nothing is tried after it,
 * and all that is not written yet fails with it. Never rejects.
 */
export async function writeIsolated<Item, Result>(
  items: readonly Item[],
  { write, within }: IsolatedWrite<Item, Result>,
): Promise<ItemOutcome<Result>[]> {
  let down: { readonly error: unknown } | undefined;

  async function writePart(part: readonly Item[], isFirstTry: boolean): Promise<ItemOutcome<Result>[]> {
    const failed = down;
    if (failed) return part.map(() => failed);
    try {
      const results = await answered(write(part, isFirstTry), within);
      return part.map((_, i) => ({ result: results[i] as Result }));
    } catch (error) {
      const isItems = isItemFailure(error);
      if (!isItems) down = { error };
      if (!isItems || part.length === 1) return part.map(() => ({ error }));
      const middle = Math.ceil(part.length / 2);
      const first = await writePart(part.slice(0, middle), false);
      return [...first, ...(await writePart(part.slice(middle), false))];
    }
  }

  return items.length === 0 ? [] : writePart(items, true);
}

/** Says that something was set aside. */
export type LogSetAside = (error: unknown, context?: Readonly<Record<string, unknown>>) => void;

/** How long the lines after the first are held back. Milliseconds. */
const quiet = 60_000;

/** Logs what was set aside, once a minute at most: then with how many it was since the line before. */
export function createSetAsideLog(logger: Pick<Logger, 'error'>, message: string): LogSetAside {
  let loggedAt = Number.NEGATIVE_INFINITY;
  let count = 0;
  return function logSetAside(error, context = {}) {
    count += 1;
    const now = performance.now();
    if (now - loggedAt < quiet) return;
    logger.error(message, { count, reason: failureName(error), ...context });
    loggedAt = now;
    count = 0;
  };
}
