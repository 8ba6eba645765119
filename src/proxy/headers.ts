import type { IncomingHttpHeaders } from 'node:http';

/** Response headers as they were parsed: lower-case names. */
export type HeaderValues = Readonly<Record<string, string | readonly string[] | undefined>>;

/** What of a caller's request an upstream may see. Never `authorization`, `cookie`, an address or a proxy's header. */
const sentUp = ['accept', 'content-type', 'idempotency-key', 'openai-beta', 'user-agent'] as const;

/** What of an upstream's answer a caller may see: OpenAI's documented headers, nothing about the upstream's account. */
const sentDown = [
  'content-type',
  'content-length',
  'content-encoding',
  'openai-processing-ms',
  'openai-version',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
] as const;

/** Added to streams so that neither a host's `compression()` nor a proxy such as nginx holds them back. */
const streamHeaders = { 'cache-control': 'no-cache, no-transform', 'x-accel-buffering': 'no' } as const;

/**
 * The headers a request goes up with. Pure.
 * @param own the upstream's own headers, its key among them; they win
 */
export function headersUp(
  given: IncomingHttpHeaders,
  own: Readonly<Record<string, string>>,
  requestId: string,
): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const name of sentUp) {
    const value = given[name];
    if (typeof value === 'string') headers[name] = value;
  }
  // what comes compressed could be neither metered nor repaired, and holds streams back
  headers['accept-encoding'] = 'identity';
  headers['x-request-id'] = requestId;
  return Object.assign(headers, own);
}

/** The headers an answer comes down with. Pure. */
export function headersDown(given: HeaderValues): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const name of sentDown) {
    const value = given[name];
    if (typeof value === 'string') headers[name] = value;
  }
  return isEventStream(given) ? Object.assign(headers, streamHeaders) : headers;
}

/** Whether an answer is server-sent events. */
export function isEventStream(headers: HeaderValues): boolean {
  return /^text\/event-stream\b/i.test(String(headers['content-type'] ?? ''));
}
