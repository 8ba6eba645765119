import { timingSafeEqual } from 'node:crypto';
import { type RawBody, signBody } from '../deliveries/send/signature.ts';

/** Whether two signatures are the same, found out in constant time. */
export function sameSignature(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  // a signature's length is no secret, and unequal lengths make timingSafeEqual throw
  return a.length === b.length && timingSafeEqual(a, b);
}

/** The headers of a request: as Node has them, or as `fetch` has them. */
export type DeliveryHeaders =
  | Readonly<Record<string, string | readonly string[] | undefined>>
  | { get(name: string): string | null };

const headerName = 'x-service-signature';

function signatureIn(given: string | undefined | DeliveryHeaders): unknown {
  if (typeof given !== 'object' || given === null) return given;
  return typeof given.get === 'function' ? given.get(headerName) : (given as Record<string, unknown>)[headerName];
}

/**
 * Whether a delivery comes from who has the secret, and came unaltered. Compares in constant time.
 * @param rawBody the body exactly as it came: bytes, or their text; never JSON that was parsed and written again
 * @param header the value of `x-service-signature`, or all headers of the request
 * @param secret the secret of the webhook; several while one replaces another
 * @throws TypeError when the body is not raw, or a secret empty: both are mistakes of the program, not of the sender
 */
export function verifySignature(
  rawBody: RawBody,
  header: string | undefined | DeliveryHeaders,
  secret: string | readonly string[],
): boolean {
  if (typeof rawBody !== 'string' && !(rawBody instanceof Uint8Array)) {
    throw new TypeError('rawBody must be the body as it came, as bytes or text, and not what a JSON parser made of it');
  }
  const secrets = typeof secret === 'string' ? [secret] : [...(secret ?? [])];
  if (secrets.length === 0 || secrets.some((one) => typeof one !== 'string' || one === '')) {
    throw new TypeError('secret must be a non-empty string, or a list of them');
  }
  const signature = signatureIn(header);
  return typeof signature === 'string' && secrets.some((one) => sameSignature(signature, signBody(rawBody, one)));
}
