import { timingSafeEqual } from 'node:crypto';
import { type RawBody, signBody } from '../deliveries/send/signature.ts';

/** Whether two signatures are the same, found out in constant time. */
export function sameSignature(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  // a signature's length is no secret, and unequal lengths make timingSafeEqual throw
  return a.length === b.length && timingSafeEqual(a, b);
}

/**
 * Whether a delivery comes from who has the secret, and came unaltered. Compares in constant time.
 * @param rawBody the body exactly as it came: bytes, or their text; never JSON that was parsed and written again
 * @param header the value of `x-service-signature`
 * @throws TypeError when the body is not raw, or the secret empty: both are mistakes of the program, not of the sender
 */
export function verifySignature(rawBody: RawBody, header: string | undefined, secret: string): boolean {
  if (typeof rawBody !== 'string' && !(rawBody instanceof Uint8Array)) {
    throw new TypeError('rawBody must be the body as it came, as bytes or text, and not what a JSON parser made of it');
  }
  if (typeof secret !== 'string' || secret === '') throw new TypeError('secret must be a non-empty string');
  return typeof header === 'string' && sameSignature(header, signBody(rawBody, secret));
}
