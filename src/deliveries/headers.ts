import { signBody, standardWebhookSignature } from './signature.ts';
import type { SecretsInUse } from './signing-secrets.ts';

/** What the headers of one POST are made from. */
export interface DeliveryHeaderInput {
  readonly eventId: string;
  readonly body: Buffer;
  readonly secrets: SecretsInUse;
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
  const { eventId, body, secrets, startedAt, test, userAgent } = input;
  const seconds = Math.floor(startedAt.getTime() / 1000);
  return {
    'content-type': 'application/json',
    'user-agent': userAgent,
    'x-service-signature': signBody(body, secrets.service),
    'webhook-id': eventId,
    'webhook-timestamp': String(seconds),
    'webhook-signature': secrets.standard
      .map((secret) => standardWebhookSignature(eventId, seconds, body, secret))
      .join(' '),
    ...(test && { 'x-service-test': 'true' }),
  };
}
