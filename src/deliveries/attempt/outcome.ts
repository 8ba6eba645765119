import type { OutboundCode } from '../../outbound/outbound-error.ts';
import type { AttemptResult } from './claims.ts';
import type { FailureCode } from './failures.ts';

/** What came of one POST. */
export interface SendResult {
  /** Milliseconds, from before the connection to the end of what was read. */
  readonly durationMs: number;
  /** The status, when one was received. */
  readonly status?: number;
  /** What cut the call short, when something did. */
  readonly error?: OutboundCode;
  /** The beginning of the answer, as text; empty when there was none. */
  readonly response: string;
}

const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/**
 * Why an attempt failed, or `null` when it succeeded: a 2xx whose part that is read came before the deadline.
 * Another status has said why, however its body went on.
 * @see interface.md, Events, rule 3
 */
export function failureOf({ status, error }: SendResult): FailureCode | null {
  if (status === undefined) return error ?? 'unknown';
  if (status >= 200 && status < 300) return error ?? null;
  return redirects.has(status) ? 'redirect' : `http_${status}`;
}

/** The same as it is recorded. */
export function toAttemptResult(sent: SendResult): AttemptResult {
  const { durationMs, status, response } = sent;
  const code = failureOf(sent);
  return { durationMs, response, ...(status !== undefined && { status }), ...(code !== null && { code }) };
}
