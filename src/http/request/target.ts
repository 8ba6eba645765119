import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../../errors.ts';

/** Scheme and authority of a request target in absolute form (RFC 9112, section 3.2.2). */
const absolute = /^https?:\/\/([^/?#]*)/i;

/** A request target as a path with its query, whatever form the client sent it in. */
function originForm(target: string): string {
  if (target.startsWith('/')) return target;
  const rest = target.replace(absolute, '');
  return rest.startsWith('/') ? rest : `/${rest}`;
}

/** The path of a request, without the query. */
export function pathOf({ url = '' }: Pick<IncomingMessage, 'url'>): string {
  return originForm(url).split('?', 1)[0] as string;
}

/** The query of a request as it came, with its `?`; empty where there is none. */
export function searchOf({ url = '' }: Pick<IncomingMessage, 'url'>): string {
  const start = url.indexOf('?');
  return start === -1 ? '' : (url.slice(start).split('#', 1)[0] as string);
}

/** The host that a request is for: the one in an absolute target, or else in the Host header. */
export function hostOf({ url = '', headers }: Pick<IncomingMessage, 'url' | 'headers'>): string | undefined {
  return (absolute.exec(url)?.[1] ?? headers.host)?.toLowerCase();
}

/** `uri-host [ ":" port ]` of RFC 9110, section 7.2. */
const validHost = /^(\[[\w:.%~-]+\]|[\w.~!$&'()*+,;=%-]*)(:\d*)?$/;

/**
 * Refuses a request that two servers could take to be for different hosts (RFC 9112, section 3.2). Node keeps the first of
 * two Host headers; only the raw list shows both.
 * @throws GatewayError `duplicate_parameter` or `invalid_value`
 */
export function requireOneHost({ headers, rawHeaders }: Pick<IncomingMessage, 'headers' | 'rawHeaders'>): void {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') count += 1;
  }
  if (count > 1) {
    throw new GatewayError('duplicate_parameter', 'The Host header must be sent once', { param: 'host' });
  }
  if (headers.host !== undefined && !validHost.test(headers.host)) {
    throw new GatewayError('invalid_value', 'The Host header is not a host with an optional port', { param: 'host' });
  }
}
