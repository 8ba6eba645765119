import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../../errors.ts';

/** The token68 of RFC 9110, section 11.2, after the scheme, which has no case. */
const bearer = /^bearer +([A-Za-z0-9\-._~+/]+=*)$/i;

const authorizationLength = 'authorization'.length;

/** Node keeps the first of two Authorization headers and drops the second; only `rawHeaders` has both. */
function countAuthorization(rawHeaders: readonly string[]): number {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (name.length === authorizationLength && name.toLowerCase() === 'authorization') count += 1;
  }
  return count;
}

/**
 * The token of `Authorization: Bearer <token>` (RFC 6750, section 2.1).
 * @throws GatewayError `missing_api_key` when there is none; `invalid_authorization` when there are two headers,
 * or one that is no bearer token
 */
export function bearerToken(req: Pick<IncomingMessage, 'headers' | 'rawHeaders'>): string {
  const header = req.headers.authorization;
  if (header === undefined || /^(bearer)? *$/i.test(header)) {
    throw new GatewayError('missing_api_key', 'No API key was sent; send it as Authorization: Bearer <API_KEY>');
  }
  const token = bearer.exec(header)?.[1];
  if (token === undefined || countAuthorization(req.rawHeaders) > 1) {
    throw new GatewayError('invalid_authorization', 'The Authorization header must be sent once, as Bearer <API_KEY>');
  }
  return token;
}
