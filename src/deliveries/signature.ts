import { createHmac } from 'node:crypto';
import type { SecretsInUse } from '../webhooks/webhook.ts';

/** The exact bytes of a body; a string means its UTF-8 bytes. */
export type RawBody = string | Uint8Array;

/**
 * The value of `x-service-signature`: `sha256=` and the HMAC-SHA256 of the exact body in lower-case hexadecimal,
 * keyed with the UTF-8 bytes of the whole secret.
 */
export function signBody(body: RawBody, secret: string): string {
  return `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
}

/** `whsec_` and then base64 in the standard alphabet; the padding may be left out. */
const encodedKey = /^whsec_((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?)$/;

/**
 * One signature for the `webhook-signature` header: `v1,` and the base64 HMAC-SHA256 of `id.timestamp.body`,
 * keyed with the bytes that a `whsec_` secret encodes, or otherwise with the secret's UTF-8 bytes.
 * @param timestamp whole seconds since 1970, as they stand in `webhook-timestamp`
 * @see https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md (1.0.0, Signature scheme)
 */
export function standardWebhookSignature(
  id: string,
  timestamp: number | string,
  body: RawBody,
  secret: string,
): string {
  const base64 = encodedKey.exec(secret)?.[1];
  // the key stays a text: `derivedId` says why
  const mac = base64 ? createHmac('sha256', base64, { encoding: 'base64' }) : createHmac('sha256', secret);
  mac.update(`${id}.${timestamp}.`).update(body);
  return `v1,${mac.digest('base64')}`;
}

interface SentEvent {
  readonly eventId: string;
  /** By the database's clock; receivers compare it with theirs. */
  readonly startedAt: Date;
}

/**
 * The headers of a delivery without its signatures. They can be derived from the attempt, so they are not stored with it.
 */
export function shownHeaders(
  attempt: SentEvent & { readonly test: boolean; readonly userAgent: string },
): Record<string, string> {
  return {
    'content-type': 'application/json',
    'user-agent': attempt.userAgent,
    'webhook-id': attempt.eventId,
    'webhook-timestamp': String(Math.floor(attempt.startedAt.getTime() / 1_000)),
    ...(attempt.test && { 'x-service-test': 'true' }),
  };
}

/**
 * The signatures of a delivery: `x-service-signature`, and that of Standard Webhooks
 * (https://github.com/standard-webhooks/standard-webhooks, spec 1.0.0) for receivers that want replay protection.
 */
export function signatureHeaders(
  { eventId, startedAt, secrets }: SentEvent & { readonly secrets: SecretsInUse },
  body: RawBody,
): Record<string, string> {
  const timestamp = Math.floor(startedAt.getTime() / 1_000);
  const signatures = secrets.standard.map((secret) => standardWebhookSignature(eventId, timestamp, body, secret));
  return { 'x-service-signature': signBody(body, secrets.service), 'webhook-signature': signatures.join(' ') };
}
