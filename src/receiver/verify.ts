import { timingSafeEqual } from 'node:crypto';
import { type RawBody, signBody } from '../deliveries/signature.ts';
import { copyProblem } from '../webhooks/secrets/pasted-secret.ts';
import { ReceiverError } from './receiver-error.ts';

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
 * One secret or several as a list.
 * @throws TypeError for none, and for one with something around it that was copied along; never with the secret in it
 */
export function toSecrets(caller: string, secret: string | readonly string[]): readonly string[] {
  const isList = typeof secret !== 'string';
  const secrets = isList ? [...(secret ?? [])] : [secret];
  if (secrets.length === 0 || secrets.some((given) => typeof given !== 'string' || given === '')) {
    throw new TypeError(
      `${caller}: secret must be the secret of the webhook, or a list of secrets; is a variable unset?`,
    );
  }
  secrets.forEach((given, i) => {
    const problem = copyProblem(given);
    if (problem) throw new TypeError(`${caller}: secret${isList ? `[${i}]` : ''} ${problem}`);
  });
  return secrets;
}

/** What to look at when no secret made a signature. */
export function noSecretMatched(header: string, { length }: readonly string[]): string {
  const which = length === 1 ? 'the secret' : `any of the ${length} secrets`;
  return (
    `${header} was not made with ${which} over this body: compare the secret with the webhook's, ` +
    'and see that nothing changes the body before it is verified'
  );
}

/**
 * Checks `x-service-signature`.
 * @throws ReceiverError `header_missing`, `header_malformed` or `no_secret_matched`
 */
export function checkServiceSignature(rawBody: RawBody, signature: unknown, secrets: readonly string[]): void {
  if (signature === undefined || signature === null || signature === '') {
    throw new ReceiverError('header_missing', `the request has no ${headerName}`);
  }
  if (typeof signature !== 'string' || !/^sha256=[0-9a-f]{64}$/.test(signature)) {
    const message = `${headerName} is not sha256= and 64 hexadecimal digits in lower case`;
    throw new ReceiverError('header_malformed', message);
  }
  if (!secrets.some((secret) => sameSignature(signature, signBody(rawBody, secret)))) {
    throw new ReceiverError('no_secret_matched', noSecretMatched(headerName, secrets));
  }
}

/**
 * Whether a delivery comes from who has the secret, and came unaltered. Compares in constant time.
 * @param rawBody the body exactly as it came: bytes, or their text; never JSON that was parsed and written again
 * @param header the value of `x-service-signature`, or all headers of the request
 * @param secret the secret of the webhook; several while one replaces another
 * @throws TypeError when the body is not raw, or a secret is empty, in quotes, or has white space around it: mistakes of the
 * program, not of the sender
 */
export function verifySignature(
  rawBody: RawBody,
  header: string | undefined | DeliveryHeaders,
  secret: string | readonly string[],
): boolean {
  if (typeof rawBody !== 'string' && !(rawBody instanceof Uint8Array)) {
    throw new TypeError('rawBody must be the body as it came, as bytes or text, and not what a JSON parser made of it');
  }
  const secrets = toSecrets('verifySignature', secret);
  try {
    checkServiceSignature(rawBody, signatureIn(header), secrets);
    return true;
  } catch (error) {
    if (error instanceof ReceiverError) return false;
    throw error;
  }
}
