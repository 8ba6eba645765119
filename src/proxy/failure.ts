import type { ServerResponse } from 'node:http';
import {
  type ErrorCode,
  errorIn,
  GatewayError,
  type GatewayErrorDetails,
  isGatewayError,
  longSecrets,
  redact,
} from '../errors.ts';
import type { ApiRequest } from '../http/operation.ts';
import type { CallEnding, Logger } from '../options/options.ts';
import type { CallDeadline } from '../outbound/deadline.ts';
import { firstHeader, type OutboundResponse } from '../outbound/exchange.ts';
import type { OutboundCode, OutboundError } from '../outbound/outbound-error.ts';
import { collect } from './answer-body.ts';
import { acceptsEncoding, encodingsOf, type HeaderPlan, type HeaderValues, isEncoded } from './headers.ts';
import type { ModelObserver } from './hooks.ts';
import { type Upstream, upstreamUrl } from './upstream.ts';

const messages = {
  upstream_unreachable: 'The model provider cannot be reached; send the request again later',
  upstream_timeout: 'The model provider did not answer in time; send the request again',
  upstream_disconnected:
    'The model provider closed the connection before its answer was complete; send the request again',
  upstream_invalid_response:
    'The model provider sent a response that cannot be relayed; tell the operator of this gateway',
  upstream_auth_failed: "The model provider refused the gateway's credentials; tell the operator of this gateway",
  upstream_rate_limited: 'The model provider accepts no more requests at present; send the request again later',
  upstream_error: 'The model provider failed; send the request again',
  shutting_down: 'The gateway is shutting down; send the request again',
  internal_error: 'The request could not be sent to the model provider; tell the operator of this gateway',
} as const satisfies Partial<Record<ErrorCode, string>>;

type UpstreamErrorCode = keyof typeof messages;

const codes: Readonly<Record<OutboundCode, UpstreamErrorCode>> = {
  dns_failed: 'upstream_unreachable',
  address_not_allowed: 'upstream_unreachable',
  http_not_allowed: 'upstream_unreachable',
  connect_refused: 'upstream_unreachable',
  connect_failed: 'upstream_unreachable',
  proxy_unreachable: 'upstream_unreachable',
  // as one answers in place of the upstream: see refusesKey
  proxy_refused: 'upstream_auth_failed',
  tls_failed: 'upstream_unreachable',
  unknown: 'upstream_unreachable',
  connect_timeout: 'upstream_timeout',
  timeout: 'upstream_timeout',
  reset: 'upstream_disconnected',
  aborted: 'upstream_disconnected',
  invalid_response: 'upstream_invalid_response',
  invalid_request: 'internal_error',
  closed: 'shutting_down',
};

/** The error that a client gets for a failure. It does not name the upstream or its address. */
export function failure(code: UpstreamErrorCode, details?: GatewayErrorDetails): GatewayError {
  const headers = code === 'shutting_down' ? { 'retry-after': '1' } : {};
  return new GatewayError(code, messages[code], { headers, ...details });
}

/** The same for a call to an upstream that failed; the gateway's own error where that is the cause. */
export function failureFrom(error: OutboundError): GatewayError {
  if (isGatewayError(error.cause)) return error.cause;
  return failure(codes[error.code], { cause: error });
}

/** Whether an answer refuses the gateway's own credentials: those for the upstream, or for a proxy on the way to it. */
export function refusesKey(status: number): boolean {
  return status === 401 || status === 403 || status === 407;
}

/** Refuses answers that concern the gateway's own account at the upstream, or that the client cannot decode. */
export function requireRelayable(
  response: Pick<OutboundResponse, 'status'> & { readonly headers: HeaderValues; readonly data: { destroy(): void } },
  apiRequest: Pick<ApiRequest, 'headers'>,
): void {
  const { status, headers } = response;
  const encodings = encodingsOf(headers);
  const unreadable = encodings !== undefined && !acceptsEncoding(apiRequest.headers, encodings);
  if (!refusesKey(status) && !unreadable && (status < 300 || status >= 400)) return;
  response.data.destroy();
  throw failure(refusesKey(status) ? 'upstream_auth_failed' : 'upstream_invalid_response');
}

/** How much of an upstream's error is read. Bytes. */
const readLimit = 8 * 1024;
/** How much of it is logged. Characters. */
const logLimit = 2_000;
/** Headers that say when to retry, and nothing about the upstream. */
const retryHeaderNames = ['retry-after', 'retry-after-ms', 'x-should-retry'] as const;
/** Keys as providers and this gateway write them, and what follows `Bearer`. */
const keyLike = /\b(?:sk|pk|rk|ek|gsk|xai|emg|key)[-_][\w*.-]{6,}|\bBearer\s+[^\s"'\\]+/gi;

/** What an answer says of when to retry. */
function retryHeaders(headers: HeaderValues): Record<string, string> {
  const told: Record<string, string> = {};
  for (const name of retryHeaderNames) {
    const value = firstHeader(headers, name);
    if (value !== undefined) told[name] = value;
  }
  return told;
}

/** The error for a response that cannot be relayed, such as a page or an empty body: it says when to retry, as the response did. */
export function invalidResponse({ status, headers }: Pick<OutboundResponse, 'status' | 'headers'>): GatewayError {
  if (status === 429) return failure('upstream_rate_limited', { headers: retryHeaders(headers) });
  // the client's own retries would not help when the request was refused
  const isRefusal = status >= 400 && status < 500;
  return failure('upstream_invalid_response', {
    headers: isRefusal ? { 'x-should-retry': 'false' } : retryHeaders(headers),
  });
}

/** One response whose body the client must not see. */
export interface MaskedResponse {
  readonly upstream: Upstream;
  readonly response: OutboundResponse;
  readonly apiRequest: ApiRequest;
  readonly res: ServerResponse;
  readonly deadline: CallDeadline;
  /** The name of the upstream, if the answer shows it. */
  readonly shownUpstream: string | undefined;
}

/** Whether a response may reveal the operator's account, and this upstream's errors are masked. */
export function isMasked({ maskErrors }: Pick<Upstream, 'maskErrors'>, status: number): boolean {
  return maskErrors && (status === 429 || status >= 500);
}

/** A text without the beginning of a secret that it ends in. */
function withoutCutOff(text: string, secret: string): string {
  for (let length = secret.length - 1; length > 0; length -= 1) {
    if (text.endsWith(secret.slice(0, length))) return text.slice(0, -length);
  }
  return text;
}

/**
 * An upstream's error as it may be logged: bounded, and without keys.
 * @param whole whether that is all of it; otherwise a key may be cut off at its end
 */
export function loggableError(text: string, whole: boolean, fixedHeaders: HeaderPlan['fixed']): string {
  const secrets = longSecrets(Object.values(fixedHeaders).flatMap((value) => [value, ...value.split(/\s+/)]));
  const redacted = redact(text, secrets);
  const trimmed = whole ? redacted : secrets.reduce(withoutCutOff, redacted);
  return trimmed.replace(keyLike, '[redacted]').slice(0, logLimit);
}

/** The error that a client gets in place of an upstream's; the log gets what the upstream said. @param body that, as it may be logged */
export function maskedError(
  {
    upstream,
    status,
    requestId,
    body,
  }: { upstream: Pick<Upstream, 'name'>; status: number; requestId: string; body: string },
  logger: Pick<Logger, 'warn'>,
): GatewayError {
  logger.warn('an upstream answered with an error', { upstream: upstream.name, status, requestId, body });
  return failure(status === 429 ? 'upstream_rate_limited' : 'upstream_error');
}

async function readText({ response, upstream, deadline }: MaskedResponse): Promise<string> {
  if (isEncoded(response.headers)) {
    response.data.destroy();
    return '[encoded]';
  }
  deadline.arm(upstream.timeouts.betweenChunks);
  try {
    const { bytes, whole } = await collect(response.data, readLimit, () => deadline.reset());
    const text = bytes.toString('utf8', 0, readLimit);
    return loggableError(text, whole && bytes.length <= readLimit, upstream.headers.fixed);
  } catch {
    return '[broke off]';
  } finally {
    response.data.destroy();
    deadline.disarm();
  }
}

/** Answers the status of an upstream's error with an error of the gateway's own; the log gets what the upstream said. */
export async function sendMasked(masked: MaskedResponse, logger: Logger): Promise<CallEnding> {
  const { response, upstream, res, deadline, apiRequest, shownUpstream } = masked;
  const { status, headers } = response;
  const { requestId } = apiRequest;
  const error = maskedError({ upstream, status, requestId, body: await readText(masked) }, logger);
  if (deadline.client.disconnected) return 'client_left';
  for (const [name, value] of Object.entries(retryHeaders(headers))) res.setHeader(name, value);
  if (shownUpstream !== undefined) res.setHeader('x-gateway-upstream', shownUpstream);
  const text = JSON.stringify(errorIn(apiRequest.dialect, error.toBody(), { status, requestId }));
  res.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
  res.end(text);
  return 'complete';
}

/**
 * Tells the metrics what comes of the requests of model calls, and the operator when an upstream begins to fail and when it answers again: once each,
 * however many calls there are.
 */
export interface UpstreamReports {
  /** The head of a response is there. @param took milliseconds */
  responded(upstream: LoggedUpstream, status: number, took: number): void;
  /** The upstream gave no response, or an error in a response of 2xx. @param path below its base URL. @param code why */
  failed(upstream: LoggedUpstream, path: string, code: string): void;
  /** Logs by the status of a response whether its upstream fails, or answers again. It may be called later than the others. */
  logAnswer(upstream: LoggedUpstream, path: string, status: number): void;
}

type LoggedUpstream = Pick<Upstream, 'name' | 'baseUrl' | 'search'>;

export function createUpstreamReports(logger: Logger, observers: readonly ModelObserver[]): UpstreamReports {
  const failing = new Set<string>();
  /** Those that have answered a call with success: their address is right, and a 404 is about what the client asked for. */
  const proven = new Set<string>();

  function logFailure(upstream: LoggedUpstream, path: string, reason: number | string): void {
    const { name } = upstream;
    if (failing.has(name)) return;
    failing.add(name);
    const { origin, pathname } = new URL(upstreamUrl(upstream, path));
    logger.warn('an upstream fails', { upstream: name, url: origin + pathname, reason });
  }

  return {
    responded({ name }, status, took) {
      for (const observer of observers) observer.upstreamAnswered(name, status, took);
    },
    failed(upstream, path, code) {
      logFailure(upstream, path, code);
      for (const observer of observers) observer.upstreamFailed(upstream.name, code);
    },
    logAnswer(upstream, path, status) {
      const { name } = upstream;
      if (status >= 500 || refusesKey(status) || (status === 404 && !proven.has(name)))
        return logFailure(upstream, path, status);
      if (status < 300) proven.add(name);
      if (failing.delete(name)) logger.info('an upstream answers again', { upstream: name });
    },
  };
}
