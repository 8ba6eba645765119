import type { SendResult } from '../send/send.ts';
import type { AttemptResult } from './claims/claim.ts';
import type { FailureCode } from './failures.ts';

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
