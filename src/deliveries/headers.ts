import { signBody, standardWebhookSignature } from './signature.ts';

/** What the headers of one POST are made from. */
export interface DeliveryHeaderInput {
  readonly eventId: string;
  readonly body: Buffer;
  readonly secret: string;
  /** When the attempt started, by the database's clock: receivers compare it with theirs. */
  readonly startedAt: Date;
  readonly test: boolean;
  readonly userAgent: string;
}

/**
 * The headers of a delivery: interface.md's signature, and beside it the Standard Webhooks headers
 * (https://github.com/standard-webhooks/standard-webhooks, spec 1.0.0) for receivers that want replay protection.
 */
export function deliveryHeaders(input: DeliveryHeaderInput): Record<string, string> {
  const { eventId, body, secret, startedAt, test, userAgent } = input;
  const seconds = Math.floor(startedAt.getTime() / 1000);
  return {
    'content-type': 'application/json',
    'user-agent': userAgent,
    'x-service-signature': signBody(body, secret),
    'webhook-id': eventId,
    'webhook-timestamp': String(seconds),
    'webhook-signature': standardWebhookSignature(eventId, seconds, body, secret),
    ...(test && { 'x-service-test': 'true' }),
  };
}
