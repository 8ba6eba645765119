import type { IncomingHttpHeaders } from 'node:http';
import type { Upstream } from './upstream.ts';

/** Response headers as they were parsed: lower-case names. */
export type HeaderValues = Readonly<Record<string, string | readonly string[] | undefined>>;

/** What of a caller's request an upstream may see. Never `authorization`, `cookie`, an address or a proxy's header. */
const sentUp = ['accept', 'content-type', 'idempotency-key', 'openai-beta', 'user-agent'] as const;

/** What of an upstream's answer a caller may see: OpenAI's documented headers, nothing about the upstream's account. */
const sentDown = [
  'content-type',
  'content-encoding',
  'openai-processing-ms',
  'openai-version',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
] as const;

/**
 * The headers a request goes up with. The upstream's own headers, its key among them, win. Pure.
 * @param given the caller's
 */
export function headersUp(
  given: IncomingHttpHeaders,
  { headers: own, forwardHeaders }: Pick<Upstream, 'headers' | 'forwardHeaders'>,
  requestId: string,
): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const name of sentUp) {
    const value = given[name];
    if (typeof value === 'string') headers[name] = value;
  }
  for (const name of forwardHeaders) {
    const value = given[name];
    if (value !== undefined) headers[name] = String(value);
  }
  // what comes compressed could be neither metered nor repaired, and holds streams back
  headers['accept-encoding'] = 'identity';
  headers['x-request-id'] = requestId;
  return Object.assign(headers, own);
}

/** The headers an answer comes down with, but for its length. Pure. */
export function headersDown(given: HeaderValues): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const name of sentDown) {
    const value = given[name];
    if (typeof value === 'string') headers[name] = value;
  }
  if (isEventStream(given)) {
    // so that neither a host's `compression()` nor a proxy such as nginx holds a stream back
    headers['cache-control'] = 'no-cache, no-transform';
    headers['x-accel-buffering'] = 'no';
  }
  return headers;
}

/** Whether an answer is server-sent events. Pure. */
export function isEventStream(headers: HeaderValues): boolean {
  return /^text\/event-stream\b/i.test(String(headers['content-type'] ?? ''));
}

/** Whether an answer came encoded all the same, and so can only be passed on. Pure. */
export function isEncoded(headers: HeaderValues): boolean {
  return !/^(identity)?$/i.test(String(headers['content-encoding'] ?? ''));
}

/** Whether a caller takes an answer that is encoded (RFC 9110, section 12.5.3). Pure. */
export function acceptsEncoding(given: IncomingHttpHeaders, encoding: string): boolean {
  const accepted = String(given['accept-encoding'] ?? '').split(',');
  return encoding.split(',').every((one) =>
    accepted.some((entry) => {
      const [name = '', quality = ''] = entry.split(';');
      return name.trim().toLowerCase() === one.trim().toLowerCase() && !/^\s*q=0(\.0*)?\s*$/.test(quality);
    }),
  );
}
