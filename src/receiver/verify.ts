import { timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { isUint8Array } from 'node:util/types';
import { type RawBody, signBody, standardWebhookSignature } from '../deliveries/signature.ts';
import { copyProblem } from '../webhooks/pasted-secret.ts';
import { ReceiverError } from './receiver-error.ts';

/** Whether two signatures are the same, found out in constant time. */
function sameSignature(given: string, expected: string): boolean {
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

function noSecretMatched(header: string, { length }: readonly string[]): string {
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
  if (typeof rawBody !== 'string' && !isUint8Array(rawBody)) {
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

/** What the Standard Webhooks headers of a delivery are checked against. */
interface StandardWebhookRules {
  readonly secrets: readonly string[];
  /** Seconds that the timestamp may be away from `now`, either way. */
  readonly tolerance: number;
  /** Whether a delivery without these headers is refused. */
  readonly required: boolean;
  /** Milliseconds since 1970. */
  readonly now: number;
}

const standardHeaders = ['webhook-id', 'webhook-timestamp', 'webhook-signature'] as const;

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
  const missing = standardHeaders.filter((name) => !headers[name]);
  if (missing.length === standardHeaders.length && !rules.required) return;
  if (missing.length > 0) throw new ReceiverError('header_missing', `the delivery has no ${missing.join(', ')}`);
  const [id, timestamp, signatures] = standardHeaders.map((name) => String(headers[name])) as [string, string, string];
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
