import type { IncomingHttpHeaders } from 'node:http';
import { type RawBody, standardWebhookSignature } from '../deliveries/signature.ts';
import { ReceiverError } from './receiver-error.ts';
import { noSecretMatched, sameSignature } from './verify.ts';

/** What the Standard Webhooks headers of a delivery are checked against. */
export interface StandardWebhookRules {
  readonly secrets: readonly string[];
  /** Seconds that the timestamp may be away from `now`, either way. */
  readonly tolerance: number;
  /** Whether a delivery without these headers is refused. */
  readonly required: boolean;
  /** Milliseconds since 1970. */
  readonly now: number;
}

const names = ['webhook-id', 'webhook-timestamp', 'webhook-signature'] as const;

/**
 * Checks `webhook-signature` and the timestamp that it signs. A delivery that has one of the headers must have all three.
 * @throws ReceiverError `header_missing`, `header_malformed`, `no_secret_matched`, `timestamp_too_old`, `timestamp_in_future`
 * @see https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md (1.0.0, Verifying webhook authenticity)
 */
export function checkStandardWebhook(
  headers: IncomingHttpHeaders,
  rawBody: RawBody,
  rules: StandardWebhookRules,
): void {
  const missing = names.filter((name) => !headers[name]);
  if (missing.length === names.length && !rules.required) return;
  if (missing.length > 0) throw new ReceiverError('header_missing', `the delivery has no ${missing.join(', ')}`);
  const [id, timestamp, signatures] = names.map((name) => String(headers[name])) as [string, string, string];
  if (!/^\d{1,15}$/.test(timestamp)) {
    throw new ReceiverError('header_malformed', 'webhook-timestamp is not a number of seconds');
  }
  const receivedSignatures = signatures.split(' ').filter((signature) => signature.startsWith('v1,'));
  if (receivedSignatures.length === 0) {
    throw new ReceiverError('header_malformed', 'webhook-signature has no signature that begins with v1,');
  }
  const expected = rules.secrets.map((secret) => standardWebhookSignature(id, timestamp, rawBody, secret));
  if (!expected.some((signature) => receivedSignatures.some((received) => sameSignature(received, signature)))) {
    throw new ReceiverError('no_secret_matched', noSecretMatched('webhook-signature', rules.secrets));
  }
  // judged last: before its signature is verified a timestamp means nothing
  const age = rules.now / 1_000 - Number(timestamp);
  if (Math.abs(age) > rules.tolerance) {
    const [code, where] =
      age > 0 ? (['timestamp_too_old', 'past'] as const) : (['timestamp_in_future', 'future'] as const);
    const message = `webhook-timestamp is more than ${rules.tolerance} seconds in the ${where}: was it sent again, or is a clock wrong?`;
    throw new ReceiverError(code, message);
  }
}
