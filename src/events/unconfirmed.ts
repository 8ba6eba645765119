import { UnansweredError } from '../answered.ts';
import { GatewayError } from '../errors.ts';

interface DriverError {
  name?: unknown;
  code?: unknown;
  errorLabelSet?: ReadonlySet<string>;
  /** Of a bulk operation. */
  result?: { getWriteConcernError?(): unknown };
}

/** The driver's errors after which nobody knows whether the write took place. */
const uncertain =
  /^Mongo(Network|ServerSelection|WriteConcern|PoolCle|ConnectionPoolCle|NotConnected|TopologyClosed|OperationTimeout)/;

/** Whether a write that failed so may nevertheless have been made, after the driver's own retry. */
export function isUncertain(error: unknown): boolean {
  const { name } = error as DriverError;
  if (error instanceof UnansweredError || hasLabel(error, 'RetryableWriteError')) return true;
  if (typeof name === 'string' && uncertain.test(name)) return true;
  return name === 'MongoBulkWriteError' && isUncertainBulk(error as DriverError);
}

/** Whether the database could not be asked at all, or was asked and said nothing. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof UnansweredError || (error as DriverError).name === 'MongoServerSelectionError';
}

/** Whether the driver or the server has marked the error so. */
export function hasLabel(error: unknown, label: string): boolean {
  return (error as DriverError).errorLabelSet?.has(label) === true;
}

/** A bulk operation wraps what went wrong: errors of the server have a code, those on the way to it have none. */
function isUncertainBulk({ code, result }: DriverError): boolean {
  return code === undefined || result?.getWriteConcernError?.() !== undefined;
}

/** What to tell the publisher then: everything needed to publish again without doubling. */
export function publishUnconfirmed(eventId: string, idempotencyKey: string, cause: unknown): GatewayError {
  return new GatewayError(
    'publish_unconfirmed',
    `the event ${eventId} may or may not have been stored; publish it again with idempotencyKey '${idempotencyKey}', which cannot double it`,
    { cause, details: { eventId, idempotencyKey } },
  );
}
