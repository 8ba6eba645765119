import { GatewayError } from '../errors.ts';

/** What to tell the publisher then: everything needed to publish again without doubling. */
export function publishUnconfirmed(eventId: string, idempotencyKey: string, cause: unknown): GatewayError {
  return new GatewayError(
    'publish_unconfirmed',
    `the event ${eventId} may or may not have been stored; publish it again with idempotencyKey '${idempotencyKey}', which cannot double it`,
    { cause, headers: { 'retry-after': '1' }, details: { eventId, idempotencyKey } },
  );
}
