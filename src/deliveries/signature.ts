import { createHmac } from 'node:crypto';

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
  const key = base64 ? Buffer.from(base64, 'base64') : Buffer.from(secret, 'utf8');
  const mac = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body);
  return `v1,${mac.digest('base64')}`;
}
