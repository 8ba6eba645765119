import type { OutboundCode } from '../../outbound/outbound-error.ts';
import { retryAfterWait } from '../../outbound/retry-after.ts';
import type { HeaderValues } from '../headers.ts';

/** How often and for how long a failed call is retried. */
export interface RetryOptions {
  /** Attempts in all, including the first. @default 3 */
  readonly attempts?: number;
  /** The longest that a call waits between attempts, all waits together. Milliseconds. @default 2_000 */
  readonly maxWait?: number;
}

/** An error that an answer with a status of 2xx holds in place of its result. */
export interface ErrorInside {
  /** The status that the error names, or 502: what the answer should have had. */
  readonly status: number;
  /** Whether it says that the request is wrong, so that the upstream is not at fault. */
  readonly blamesRequest: boolean;
}

/** What says whether a response is a success. */
export interface ResponseStatus {
  readonly status: number;
  /** The error that an answer of 2xx is: of a whole body, or of a stream's first event. */
  readonly errorInside?: ErrorInside | undefined;
}

/** The result of one attempt: a response's status and headers, or the code of a failure. */
export type UpstreamResult =
  | { readonly status: number; readonly headers: HeaderValues }
  | { readonly code: OutboundCode; readonly reusedSocket: boolean };

const retriedStatuses = new Set([408, 409, 429]);
const retriedCodes: ReadonlySet<OutboundCode> = new Set([
  'dns_failed',
  'connect_refused',
  'connect_failed',
  'connect_timeout',
  'tls_failed',
  'reset',
]);

/** Whether another attempt may succeed. An upstream's `x-should-retry` decides, where it is sent. Pure. */
export function isRetryable(result: UpstreamResult): boolean {
  if ('code' in result) return retriedCodes.has(result.code);
  const { status, headers } = result;
  if (status < 400) return false;
  if (headers['x-should-retry'] === 'false') return false;
  return headers['x-should-retry'] === 'true' || retriedStatuses.has(status) || status >= 500;
}

function toMilliseconds(text: unknown): number | undefined {
  return typeof text === 'string' && /^\s*\d+(\.\d+)?\s*$/.test(text) ? Number(text) : undefined;
}

/** The wait an upstream asks for (RFC 9110, section 10.2.3; `retry-after-ms` is OpenAI's). Pure. */
export function requestedWait(headers: HeaderValues, now: number): number | undefined {
  return toMilliseconds(headers['retry-after-ms']) ?? retryAfterWait(headers['retry-after'], now);
}

/**
 * How long to wait before the same upstream is tried again: what it asks for, else 100 ms, doubling, with up to half of it
 * at random; not at all when only a kept connection had died. Pure.
 * @param tries how many there have been
 */
export function waitBefore(result: UpstreamResult, tries: number, now: number, random: () => number): number {
  if ('code' in result && result.reusedSocket) return 0;
  const requestedDelay = 'headers' in result ? requestedWait(result.headers, now) : undefined;
  return requestedDelay ?? 100 * 2 ** (tries - 1) * (0.5 + random() / 2);
}

/**
 * Keeps retries a small part of all calls, so that they cannot double the load on providers that are failing already:
 * every call earns a tenth of a retry, and the budget starts with ten.
 */
export class RetryBudget {
  readonly #limit = 10;
  #left = this.#limit;

  earn(): void {
    this.#left = Math.min(this.#limit, this.#left + 0.1);
  }

  /** @returns whether there was one left */
  spend(): boolean {
    if (this.#left < 1) return false;
    this.#left -= 1;
    return true;
  }
}

/** What limits the attempts of a call. */
export interface RetryPolicy {
  readonly attempts: number;
  /** Milliseconds, all waits of one call together. */
  readonly maxWait: number;
  readonly budget: RetryBudget;
}
