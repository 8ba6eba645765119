import { UnansweredError } from '../answered.ts';
import { GatewayError } from '../errors.ts';

/** Whether the database could not be asked at all, or was asked and said nothing. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof UnansweredError || (error as Error).name === 'MongoServerSelectionError';
}

/** What to tell the publisher then: everything needed to publish again without doubling. */
export function publishUnconfirmed(eventId: string, idempotencyKey: string, cause: unknown): GatewayError {
  return new GatewayError(
    'publish_unconfirmed',
    `the event ${eventId} may or may not have been stored; publish it again with idempotencyKey '${idempotencyKey}', which cannot double it`,
    { cause, headers: { 'retry-after': '1' }, details: { eventId, idempotencyKey } },
  );
}
