import { GatewayError, isError } from '../errors.ts';
import { TimeoutError } from './periodic.ts';

interface DriverError {
  name?: unknown;
  code?: unknown;
  errorLabelSet?: ReadonlySet<string>;
  /** Of a bulk operation. */
  result?: { getWriteConcernError?(): unknown };
}

/** The driver's errors after which a write may or may not have happened, and a later try may succeed. */
const connectivity =
  /^(Mongo(Network|ServerSelection|WriteConcern|PoolCle|WaitQueueTimeout|NotConnected|TopologyClosed|ServerClosed|ClientClosed|OperationTimeout|StalePrimary)|PoolClearedOnNetworkError)/;

/**
 * The server's codes for a member that is not primary, starts, or shuts down (MongoDB's specification "Server Discovery and
 * Monitoring"), and for an operation that was ended by an administrator.
 */
export const notPrimary: ReadonlySet<unknown> = new Set([
  91, // ShutdownInProgress
  189, // PrimarySteppedDown
  10_058, // LegacyNotPrimary
  10_107, // NotWritablePrimary
  11_600, // InterruptedAtShutdown
  11_601, // Interrupted
  11_602, // InterruptedDueToReplStateChange
  13_388, // StaleConfig
  13_435, // NotPrimaryNoSecondaryOk
  13_436, // NotPrimaryOrSecondary
]);

/** Node's codes for a socket that the other side has closed: the driver (mongodb 7.8) passes them on when it writes. */
const brokenSocket: ReadonlySet<unknown> = new Set(['EPIPE', 'ECONNRESET', 'ETIMEDOUT', 'ERR_STREAM_DESTROYED']);

export function hasLabel(error: unknown, label: string): boolean {
  return (error as DriverError | null)?.errorLabelSet?.has(label) === true;
}

/** Whether a bulk operation was made, but not confirmed by as many members as its write concern asks for. */
export function hasWriteConcernError(error: unknown): boolean {
  return (error as DriverError).result?.getWriteConcernError?.() !== undefined;
}

/**
 * Whether the database could not be reached, had no primary, or did not confirm in time. A write that failed in this way may
 * have been made all the same.
 */
export function isUnavailable(error: unknown): boolean {
  if (!isError(error)) return false;
  if (error instanceof TimeoutError || hasLabel(error, 'RetryableWriteError')) return true;
  const { name, code } = error as DriverError;
  if (connectivity.test(String(name)) || notPrimary.has(code) || brokenSocket.has(code)) return true;
  // in a bulk operation, errors of the server have a code; network errors have none
  return name === 'MongoBulkWriteError' && (code === undefined || hasWriteConcernError(error));
}

/** Seconds. Most often a lost primary is replaced by then, and OpenAI's clients wait longer automatically. */
const retryAfter = '1';

/** @param cause the driver's error; without it, nothing was sent to the database */
export function databaseUnavailable(cause?: unknown): GatewayError {
  const message =
    cause === undefined
      ? 'The database is unavailable and nothing was done; try again in a moment'
      : 'The database is unavailable; try again in a moment. A change that was under way may or may not have been made';
  return new GatewayError('database_unavailable', message, { headers: { 'retry-after': retryAfter }, cause });
}

/** The same error, or `database_unavailable` if the database is the cause. */
export function asUnavailable(error: unknown): unknown {
  return isUnavailable(error) ? databaseUnavailable(error) : error;
}

export function isUnavailableError(error: unknown): boolean {
  return error instanceof GatewayError && error.code === 'database_unavailable';
}
