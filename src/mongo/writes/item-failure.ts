import type { Logger } from '../../logger.ts';
import { hasLabel, hasWriteConcernError, notPrimary } from '../unavailable.ts';

interface Failure {
  readonly name?: unknown;
  readonly code?: unknown;
}

/**
 * Errors thrown before anything is sent: the driver's (mongodb 7) for a document that is too large or malformed, BSON's for
 * a value that it cannot hold (a `RangeError` when a message outgrows its buffer), mongoose's for what its schema refuses,
 * and JavaScript's for a value of the wrong type.
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

/** The server's codes below 10,000 for the content of a document or a statement (MongoDB's error_codes.yml). */
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

/** From here on, codes are assertions about what was sent (10334: a document too large; 16554, 28664: a value of the wrong type). */
const firstAssertion = 10_000;

/** Codes above that one which are about the server: it kept them from its first versions. */
const serverStates: ReadonlySet<unknown> = new Set([
  ...notPrimary,
  11_000, // DuplicateKey: its writer judges it
  14_031, // OutOfDiskSpace
]);

function isRefusedContent(error: unknown): boolean {
  const { code } = error as Failure;
  if (typeof code !== 'number' || hasWriteConcernError(error)) return false;
  return refusedContents.has(code) || (code >= firstAssertion && !serverStates.has(code));
}

/**
 * Whether a write of several items failed because of the content of one: without it, the others succeed. Every other
 * failure is the database's (the network, no primary, a time-out, a full disk, a conflict) and would hit each item alone, too.
 */
export function isItemFailure(error: unknown): boolean {
  if (hasLabel(error, 'RetryableWriteError') || hasLabel(error, 'TransientTransactionError')) return false;
  const { name } = error as Failure;
  if (unsendable.has(String(name))) return true;
  return (name === 'MongoServerError' || name === 'MongoBulkWriteError') && isRefusedContent(error);
}

/** What a log may show of an item's failure: never the message, which quotes what the item holds. */
export function failureName(error: unknown): string {
  const { name, code } = error as Failure;
  return code === undefined ? String(name) : `${name} ${code}`;
}

/** Logs that an item was set aside. */
export type LogSetAside = (error: unknown, context?: Readonly<Record<string, unknown>>) => void;

/** How long further lines are held back after one. Milliseconds. */
const quiet = 60_000;

/** Logs at most one line a minute, with the number of items set aside since the line before. */
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
