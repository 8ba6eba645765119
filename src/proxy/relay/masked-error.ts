import type { ServerResponse } from 'node:http';
import { longSecrets, redact } from '../../errors.ts';
import type { ApiRequest } from '../../http/operation.ts';
import type { CallEnding, Logger } from '../../options/options.ts';
import type { CallDeadline } from '../call-deadline.ts';
import { failure } from '../failure.ts';
import { type HeaderPlan, isEncoded } from '../headers.ts';
import type { Upstream } from '../routing/upstream.ts';
import { collect } from './collect.ts';
import type { DecodedResponse } from './decoded-body.ts';

/** How much of an upstream's error is read. Bytes. */
const readLimit = 8 * 1024;
/** How much of it is logged. Characters. */
const logLimit = 2_000;
/** Headers that say when to retry, and nothing about the upstream. */
const keptHeaders = ['retry-after', 'retry-after-ms', 'x-should-retry'] as const;
/** Keys as providers and this gateway write them, and what follows `Bearer`. */
const keyLike = /\b(?:sk|pk|rk|gsk|xai|emg|key)[-_][\w*.-]{6,}|\bBearer\s+[^\s"'\\]+/gi;

/** One response whose body the client must not see. */
export interface MaskedResponse {
  readonly upstream: Upstream;
  readonly response: DecodedResponse;
  readonly apiRequest: ApiRequest;
  readonly res: ServerResponse;
  readonly deadline: CallDeadline;
  /** The name of the upstream, if the answer shows it. */
  readonly shownUpstream: string | undefined;
}

/** Whether a response may reveal the operator's account, and this upstream's errors are masked. Pure. */
export function isMasked(
  { maskErrors }: Pick<Upstream, 'maskErrors'>,
  { status }: { readonly status: number },
): boolean {
  return maskErrors && (status === 429 || status >= 500);
}

/** The secrets in the headers that the operator has configured for an upstream, the longest first. */
function secretsOf(fixedHeaders: HeaderPlan['fixed']): string[] {
  return longSecrets(Object.values(fixedHeaders).flatMap((value) => [value, ...value.split(/\s+/)]));
}

/** A text without the beginning of a secret that it ends in. */
function withoutCutOff(text: string, secret: string): string {
  for (let length = secret.length - 1; length > 0; length -= 1) {
    if (text.endsWith(secret.slice(0, length))) return text.slice(0, -length);
  }
  return text;
}

/**
 * An upstream's error as it may be logged: bounded, and without keys. Pure.
 * @param whole whether that is all of it; otherwise a key may be cut off at its end
 */
export function loggableError(text: string, whole: boolean, fixedHeaders: HeaderPlan['fixed']): string {
  const secrets = secretsOf(fixedHeaders);
  const redacted = redact(text, secrets);
  const trimmed = whole ? redacted : secrets.reduce(withoutCutOff, redacted);
  return trimmed.replace(keyLike, '[redacted]').slice(0, logLimit);
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
  const body = await readText(masked);
  logger.warn('an upstream answered with an error', {
    upstream: upstream.name,
    status,
    requestId: apiRequest.requestId,
    body,
  });
  if (deadline.clientDisconnected) return 'client_left';
  const error = failure(status === 429 ? 'upstream_rate_limited' : 'upstream_error');
  for (const name of keptHeaders) {
    const value = headers[name];
    if (typeof value === 'string') res.setHeader(name, value);
  }
  if (shownUpstream !== undefined) res.setHeader('x-gateway-upstream', shownUpstream);
  const text = JSON.stringify(error.toBody());
  res.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
  res.end(text);
  return 'complete';
}
