import { retryAfterWait } from '../outbound/retry-after.ts';
import type { AttemptResult, Next } from './claims.ts';
import type { Claim, FailureCode } from './model.ts';
import type { SendResult } from './send.ts';

/** The longest that a receiver's `Retry-After` can postpone the next attempt. Milliseconds. */
const longestWait = 24 * 3_600_000;

const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/**
 * Why an attempt failed, or `null` if it succeeded. The status decides, whatever its body does: a 2xx is a success, any other
 * status is the reason itself. Redirects are not followed.
 */
export function failureOf({ status, error }: SendResult): FailureCode | null {
  if (status === undefined) return error ?? 'unknown';
  if (status >= 200 && status < 300) return null;
  return redirects.has(status) ? 'redirect' : `http_${status}`;
}

/** The result in its recorded form. */
export function toAttemptResult(sent: SendResult): AttemptResult {
  const { durationMs, status, retryAfter, location, response } = sent;
  const code = failureOf(sent);
  return {
    durationMs,
    response,
    ...(status !== undefined && { status }),
    ...(code !== null && { code }),
    ...(retryAfter !== undefined && { retryAfter }),
    ...(code === 'redirect' && location !== undefined && { location }),
  };
}

/**
 * The time from the end of attempt `attempt` to the next one, in milliseconds.
 * @param delays the waits before attempts 2, 3, …; the last one repeats
 */
export function delayAfter(attempt: number, delays: readonly number[]): number {
  return delays[attempt - 1] ?? delays.at(-1) ?? 0;
}

/** What a receiver asked for in its answer. */
export interface RequestedWait {
  /** Its `Retry-After`, as it came. */
  readonly retryAfter: string | undefined;
  /** When the attempt ended, in milliseconds since the epoch. */
  readonly endedAt: number;
}

/**
 * The later of the schedule's delay and what the receiver asked for, the latter at most 24 hours. In milliseconds from the end of the
 * attempt. Pure.
 */
export function honoringRetryAfter(delay: number, { retryAfter, endedAt }: RequestedWait): number {
  const requested = retryAfterWait(retryAfter, endedAt) ?? 0;
  return Math.max(delay, Math.ceil(Math.min(requested, longestWait)));
}

/** What follows a scheduled attempt. Pure. */
export function nextAfter(
  { delivery, startedAt }: Pick<Claim, 'delivery' | 'startedAt'>,
  { code, retryAfter, durationMs }: AttemptResult,
  { retryDelays, honorRetryAfter }: RetryRules,
): Next {
  if (code === undefined) return { state: 'delivered' };
  if (delivery.attempt >= delivery.maxAttempts) return { state: 'failed' };
  const delay = delayAfter(delivery.attempt, retryDelays);
  if (!honorRetryAfter) return { retryIn: delay };
  return { retryIn: honoringRetryAfter(delay, { retryAfter, endedAt: startedAt.getTime() + durationMs }) };
}

/** When failed attempts are made again. */
export interface RetryRules {
  readonly retryDelays: readonly number[];
  /** Whether a receiver's `Retry-After` can postpone the next attempt. @default false */
  readonly honorRetryAfter?: boolean;
}

/** The number of attempts of a delivery: one at once, and one after each delay. A test event gets one. */
export function attemptsAllowed(delays: readonly number[], test: boolean): number {
  return test ? 1 : delays.length + 1;
}

/** What a failure means and what the webhook's owner can do about it. */
export interface FailureAdvice {
  readonly meaning: string;
  readonly remedy: string;
}

/**
 * Every code that an attempt can fail with, except `http_<status>`. The receiver causes most of them, the gateway the last ones.
 * openapi.yaml (`DeliveryErrorCode`) and docs/webhooks.md have the same table; a test compares them.
 */
export const failures: Readonly<Record<Exclude<FailureCode, `http_${number}`>, FailureAdvice>> = {
  dns_failed: {
    meaning: 'The host name of the URL could not be resolved, or not in time.',
    remedy: 'Check the name, its A and AAAA records and its name servers, from outside your network.',
  },
  address_not_allowed: {
    meaning: 'The host resolves to an address that webhooks may not reach, such as a private one.',
    remedy: 'Give the host a public address; every address its name resolves to must be public.',
  },
  http_not_allowed: {
    meaning: 'The URL is plain http, which the operator of this service does not allow, or no longer.',
    remedy: 'Register an https URL in its place; until then every attempt fails with this code.',
  },
  connect_refused: {
    meaning: 'Nothing accepts connections at the address and port of the URL.',
    remedy: 'Start the receiver, and open its port to the outside.',
  },
  connect_failed: {
    meaning: 'No route leads to the address of the URL.',
    remedy: 'Check the address, routing and firewalls in front of the receiver.',
  },
  connect_timeout: {
    meaning: 'The connection, TLS included, was not made in time.',
    remedy: 'Check that no firewall drops packets and that the receiver keeps up.',
  },
  tls_failed: {
    meaning:
      'The TLS handshake failed: the certificate is expired, self-signed or for another name, or there is no TLS.',
    remedy: 'Serve a valid certificate for this host, with its intermediates.',
  },
  reset: {
    meaning: 'The connection was closed before a status arrived.',
    remedy:
      'Look for a crash, a restart or a proxy that closes connections early; keep idle connections for 2 s or longer.',
  },
  timeout: {
    meaning: 'No status arrived before the deadline of the attempt.',
    remedy: 'Answer 2xx at once and process the event afterwards.',
  },
  redirect: {
    meaning: 'The receiver answered with a redirect; redirects are never followed.',
    remedy: 'Register the final URL.',
  },
  invalid_response: {
    meaning: 'What came back is not valid HTTP/1.1, or has more than 16 KB of headers.',
    remedy: 'Check that an HTTP/1.1 server listens at the URL, and what stands in front of it.',
  },
  worker_crashed: {
    meaning: 'The sending process died several times while it made this attempt.',
    remedy: 'Nothing on your side; the operator of this service finds the cause in its logs.',
  },
  invalid_request: {
    meaning: 'No request could be made from the URL.',
    remedy: 'Register the webhook again with a plain URL.',
  },
  aborted: { meaning: 'The attempt was cut off by the sender.', remedy: 'Nothing; it is made again.' },
  closed: { meaning: 'The sender was shutting down.', remedy: 'Nothing; the attempt is made again.' },
  unknown: {
    meaning: 'The attempt failed for a reason that is not known.',
    remedy: 'Check the receiver; if it looks well, ask the operator of this service.',
  },
};

/** Meaning and remedy of every `http_<status>`. */
export const statusFailure: FailureAdvice = {
  meaning: 'The receiver answered with this status, which is not 2xx.',
  remedy: 'Answer 2xx once the event is taken over; the recorded answer and your logs say why not.',
};

/** Meaning and remedy of any code, `http_<status>` included. */
export function adviceFor(code: string): FailureAdvice {
  return Object.hasOwn(failures, code) ? failures[code as keyof typeof failures] : statusFailure;
}
