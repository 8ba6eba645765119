import { type RawBody, signBody, standardWebhookSignature } from './signature.ts';
import type { SecretsInUse } from './signing-secrets.ts';

/** What the headers that anybody may see are made from. */
export interface ShownHeaderInput {
  readonly eventId: string;
  /** When the attempt started, by the database's clock: receivers compare it with theirs. */
  readonly startedAt: Date;
  readonly test: boolean;
  readonly userAgent: string;
}

/** What the signatures of one POST are made from, beside its body. */
export interface SignatureInput extends Pick<ShownHeaderInput, 'eventId' | 'startedAt'> {
  readonly secrets: SecretsInUse;
}

const seconds = (moment: Date) => Math.floor(moment.getTime() / 1000);

/** The headers of a delivery but its signatures. They follow from the attempt, so they are not stored with it. */
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
 * The signatures of a delivery: interface.md's, and beside it that of Standard Webhooks
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
