import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../../errors.ts';

/** JSON is UTF-8 (RFC 8259, section 8.1), which includes ASCII. */
const jsonCharsets: ReadonlySet<string> = new Set(['utf-8', 'utf8', 'us-ascii']);

function charsetOf(parameters: readonly string[]): string | undefined {
  for (const parameter of parameters) {
    const charset = /^\s*charset\s*=\s*"?([^"]*?)"?\s*$/i.exec(parameter)?.[1];
    if (charset !== undefined) return charset.toLowerCase();
  }
  return undefined;
}

/**
 * The media type of the body, in lower case and without its parameters.
 * @throws GatewayError `unsupported_media_type` when there is none, when it is none of those the operation takes,
 * and for JSON that is not UTF-8
 */
export function bodyMediaType(req: IncomingMessage, accepted: ReadonlySet<string>): string {
  const [type = '', ...parameters] = (req.headers['content-type'] ?? '').split(';');
  const mediaType = type.trim().toLowerCase();
  if (!accepted.has(mediaType)) {
    const expected = [...accepted].join(' or ');
    throw new GatewayError('unsupported_media_type', `The body must be sent with Content-Type: ${expected}`);
  }
  const charset = charsetOf(parameters);
  if (mediaType === 'application/json' && charset !== undefined && !jsonCharsets.has(charset)) {
    throw new GatewayError('unsupported_media_type', 'JSON must be UTF-8; leave out the charset of Content-Type');
  }
  return mediaType;
}
