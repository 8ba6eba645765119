import { createHmac } from 'node:crypto';
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import type { Dialect } from '../errors.ts';
import { firstHeader } from '../outbound/exchange.ts';

/** Response headers as they were parsed: lower-case names. */
export type HeaderValues = Readonly<Record<string, string | readonly string[] | undefined>>;

/** The request headers that an upstream may see. Never `authorization`, `x-api-key`, `cookie`, an address or a proxy's header. */
const passedRequestHeaders = ['accept', 'content-type', 'idempotency-key', 'openai-beta', 'user-agent'] as const;

/** Those that an upstream may see because it speaks a dialect, beside these. */
export const dialectHeaders: Readonly<Record<Dialect, readonly string[]>> = {
  openai: [],
  anthropic: ['anthropic-version', 'anthropic-beta'],
};

const requestIdName = 'x-request-id';
const idempotencyKeyName = 'idempotency-key';

/** The response headers that a client may see: those that OpenAI documents, none about the upstream's account. */
const passedResponseHeaders = [
  'content-type',
  'content-encoding',
  'content-disposition',
  'openai-processing-ms',
  'openai-version',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
] as const;

/** The version of Anthropic's API in which the gateway asks for itself. */
export const anthropicVersion = { 'anthropic-version': '2023-06-01' } as const;

/** Which headers one upstream gets, worked out once: see {@link upstreamRequestHeaders}. */
export interface HeaderPlan {
  /** Names of the client's headers that pass. */
  readonly passed: readonly string[];
  /** Headers that are the same for every request. */
  readonly fixed: Readonly<Record<string, string>>;
  /** Whether it gets the id of the request. */
  readonly requestId: boolean;
}

/**
 * Plans the headers of an upstream's requests. The configured ones, its API key among them, win over all others.
 * @param configured lower-case names
 * @param forwarded further names of the client's headers that pass, in lower case
 */
export function planHeaders(configured: Readonly<Record<string, string>>, forwarded: readonly string[]): HeaderPlan {
  // a compressed answer could be neither metered nor repaired, and compression delays streams
  const fixed: Record<string, string> = { 'accept-encoding': 'identity', ...configured };
  const passed = [...new Set([...passedRequestHeaders, ...forwarded])].filter(
    (name) => !Object.hasOwn(fixed, name) && name !== requestIdName,
  );
  return { passed, fixed, requestId: !Object.hasOwn(configured, requestIdName) };
}

/** The headers of a request to an upstream. */
export function upstreamRequestHeaders(
  clientHeaders: IncomingHttpHeaders,
  plan: HeaderPlan,
  requestId: string,
): Record<string, string> {
  const headers = { ...plan.fixed };
  for (const name of plan.passed) {
    const value = clientHeaders[name];
    if (value !== undefined) headers[name] = String(value);
  }
  if (plan.requestId) headers[requestIdName] = requestId;
  return headers;
}

/**
 * The headers of a caller, with an `Idempotency-Key` that belongs to its account alone. All accounts share the gateway's API
 * key at the upstream: unchanged, the key of one account could fetch the answer to another account's request. The same key
 * of the same account always becomes the same.
 */
export function withAccountsIdempotencyKey(
  headers: IncomingHttpHeaders,
  userId: string,
  secret: Buffer,
): IncomingHttpHeaders {
  const key = headers[idempotencyKeyName];
  if (key === undefined) return headers;
  const hidden = createHmac('sha256', secret).update(JSON.stringify([userId, key]));
  return { ...headers, [idempotencyKeyName]: hidden.digest('base64url') };
}

/** Sets the headers of the answer to the client, except its length. */
export function setResponseHeaders(res: ServerResponse, upstreamHeaders: HeaderValues): void {
  for (const name of passedResponseHeaders) {
    // encodings are a list, however many headers they come in (RFC 9110, section 8.4)
    const value = name === 'content-encoding' ? encodingsOf(upstreamHeaders) : firstHeader(upstreamHeaders, name);
    if (value !== undefined) res.setHeader(name, value);
  }
  if (isEventStream(upstreamHeaders)) {
    // so that neither a host's `compression()` nor a proxy such as nginx delays a stream
    res.setHeader('cache-control', 'no-cache, no-transform');
    res.setHeader('x-accel-buffering', 'no');
  }
}

/** Whether an answer is server-sent events. */
export function isEventStream(headers: HeaderValues): boolean {
  const type = headers['content-type'];
  return type !== undefined && /^text\/event-stream\b/i.test(String(type));
}

/**
 * How an answer is encoded nevertheless; `undefined` where it is not. `none` is no encoding: servers write it so that nothing compresses, and
 * holds back, their streams.
 */
export function encodingsOf(headers: HeaderValues): string | undefined {
  const encodings = String(headers['content-encoding'] ?? '');
  const isPlain = encodings.split(',').every((encoding) => /^(identity|none)?$/i.test(encoding.trim()));
  return isPlain ? undefined : encodings;
}

/** Whether an answer is encoded nevertheless, and so can only be passed on as it is. */
export function isEncoded(headers: HeaderValues): boolean {
  return encodingsOf(headers) !== undefined;
}

/** Whether a client accepts an answer with this encoding (RFC 9110, section 12.5.3). */
export function acceptsEncoding(clientHeaders: IncomingHttpHeaders, encoding: string): boolean {
  const accepted = String(clientHeaders['accept-encoding'] ?? '').split(',');
  return encoding.split(',').every((coding) =>
    accepted.some((accept) => {
      const [name = '', quality = ''] = accept.split(';');
      return name.trim().toLowerCase() === coding.trim().toLowerCase() && !/^\s*q=0(\.0*)?\s*$/.test(quality);
    }),
  );
}
