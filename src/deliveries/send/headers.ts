import { type RawBody, signBody, standardWebhookSignature } from './signature.ts';
import type { SecretsInUse } from './signing-secrets.ts';

/** The input of the headers that may be shown. */
export interface ShownHeaderInput {
  readonly eventId: string;
  /** By the database's clock; receivers compare it with theirs. */
  readonly startedAt: Date;
  readonly test: boolean;
  readonly userAgent: string;
}

/** The input of the signatures of one POST, beside its body. */
export interface SignatureInput extends Pick<ShownHeaderInput, 'eventId' | 'startedAt'> {
  readonly secrets: SecretsInUse;
}

const seconds = (moment: Date) => Math.floor(moment.getTime() / 1000);

/** The headers of a delivery without its signatures. They can be derived from the attempt, so they are not stored with it. */
export function shownHeaders({ eventId, startedAt, test, userAgent }: ShownHeaderInput): Record<string, string> {
  return {
    'content-type': 'application/json',
    'user-agent': userAgent,
    'webhook-id': eventId,
    'webhook-timestamp': String(seconds(startedAt)),
    ...(test && { 'x-service-test': 'true' }),
  };
}

/**
 * The signatures of a delivery: `x-service-signature`, and that of Standard Webhooks
 * (https://github.com/standard-webhooks/standard-webhooks, spec 1.0.0) for receivers that want replay protection.
 */
export function signatureHeaders(
  { eventId, startedAt, secrets }: SignatureInput,
  body: RawBody,
): Record<string, string> {
  const signatures = secrets.standard.map((secret) =>
    standardWebhookSignature(eventId, seconds(startedAt), body, secret),
  );
  return { 'x-service-signature': signBody(body, secrets.service), 'webhook-signature': signatures.join(' ') };
}
