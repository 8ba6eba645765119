import type { GatewayError } from '../errors.ts';
import { type Deadline, pause } from '../outbound/deadline.ts';
import { type OutboundCode, OutboundError } from '../outbound/outbound-error.ts';
import { retryAfterWait } from '../outbound/retry-after.ts';
import { failure, failureFrom } from './failure.ts';
import type { HeaderValues } from './headers.ts';
import type { ResponseStatus } from './inspect-answer.ts';
import type { Upstream } from './upstream.ts';
import { type CallPlace, connectionFailures, isConnectionFailure } from './upstream-state.ts';

/** How often and for how long a failed call is retried. */
export interface RetryOptions {
  /** Attempts in all, including the first. @default 3 */
  readonly attempts?: number;
  /** The longest that a call waits between attempts, all waits together. Milliseconds. @default 2_000 */
  readonly maxWait?: number;
}

/** What limits the attempts of a call. */
export interface RetryPolicy extends Required<RetryOptions> {
  readonly budget: RetryBudget;
  /** Whether the request may be sent again once an upstream may have got it. @default true */
  readonly resends?: boolean;
}

/** What limits the attempts of all calls of a gateway. */
export function createRetryPolicy({ attempts = 3, maxWait = 2_000 }: RetryOptions): RetryPolicy {
  return { attempts, maxWait, budget: new RetryBudget() };
}

/** One call, as the upstreams are tried for it. */
export interface RoutedCall {
  /** The account. */
  readonly userId: string;
  /** The upstreams, in the order in which they are tried. */
  readonly order: readonly Upstream[];
  readonly deadline: Deadline;
  /** Afterwards it is a place at the upstream that answered. */
  readonly place: CallPlace;
  /** Whether it is a model call: upstreams that leave many of these without an answer count as hanging. @default false */
  readonly isModelCall?: boolean;
}

/** A response, as the upstreams are tried for it. */
interface RoutedResponse extends ResponseStatus {
  readonly headers: HeaderValues;
  readonly data: { destroy(): void };
}

/**
 * Sends the request to one upstream; resolves when the answer has begun. Rejects with an OutboundError.
 * @param onConnected to be called when there is a connection
 */
type Send<Response> = (upstream: Upstream, onConnected: () => void) => Promise<Response>;

/** What has come of one attempt: a response, whatever its status, with its body still to come, or an error. */
interface Attempt<Response> {
  readonly upstream: Upstream;
  readonly response?: Response;
  readonly error?: OutboundError;
}

/**
 * Tries the upstreams in turn, and again from the first, until one gives a response for the client, or the attempts, the
 * waits or the budget are used up: then the last result stands. Another upstream costs nothing of the budget after a
 * connection that failed: no upstream has got the request yet. An error in a 2xx counts as the status that it names; another upstream may
 * succeed even where it blames the request, or where an answer is invalid. Nothing has been sent to the client before it returns.
 * @throws GatewayError when the last result is a failure, or every upstream has an open breaker or no place for the call
 */
export async function tryUpstreams<Response extends RoutedResponse>(
  { userId, order, deadline, place, isModelCall = false }: RoutedCall,
  send: Send<Response>,
  { attempts, maxWait, budget, resends = true }: RetryPolicy,
): Promise<{ readonly upstream: Upstream; readonly response: Response }> {
  // another upstream is tried at once, the same one again only after a wait; by `performance.now()`
  let candidates = order.map((upstream) => ({ upstream, readyAt: 0 }));
  let tries = 0;
  let isPaid = false;
  let waited = 0;
  let last: Attempt<Response> | undefined;
  let placeError: GatewayError | undefined;
  while (candidates.length > 0) {
    const next = candidates.reduce((first, other) => (other.readyAt < first.readyAt ? other : first));
    const { upstream, readyAt } = next;
    const wait = Math.max(0, readyAt - performance.now());
    if (waited + wait > maxWait) break;
    const isRetry = last !== undefined && !(readyAt === 0 && isConnectionFailure(last.error));
    if (isRetry && !isPaid) {
      if (!budget.spend()) break;
      isPaid = true;
    }
    if (wait > 0) await pause(wait, deadline);
    if (last && deadline.isOver) throw failure('upstream_timeout');
    waited += wait;
    const noPlaceError = place.moveTo(upstream.calls);
    placeError ??= noPlaceError;
    const tried = noPlaceError ? undefined : await tryOnce(upstream, { userId, isModelCall }, send);
    if (!tried) {
      candidates = candidates.filter((candidate) => candidate !== next);
      continue;
    }
    tries += 1;
    isPaid = false;
    last?.response?.data.destroy();
    last = tried;
    if (deadline.isOver || tries >= attempts) break;
    if (!resends && !isConnectionFailure(tried.error)) break;
    const { response, error } = tried;
    const inside = response?.errorInside;
    const result = inside
      ? { status: inside.status, headers: response.headers }
      : (response ?? (error as OutboundError));
    if (isRetryable(result)) next.readyAt = performance.now() + waitBefore(result, tries, Date.now(), Math.random);
    else if (inside || (error && isLasting(error.code)))
      candidates = candidates.filter((candidate) => candidate !== next);
    else break;
  }
  if (last?.response) return { upstream: last.upstream, response: last.response };
  if (last?.error) throw failureFrom(last.error);
  throw placeError ?? failure('upstream_unreachable');
}

/** Tries one upstream; `undefined` where its breaker is open. */
async function tryOnce<Response extends RoutedResponse>(
  upstream: Upstream,
  { userId, isModelCall }: Required<Pick<RoutedCall, 'userId' | 'isModelCall'>>,
  send: Send<Response>,
): Promise<Attempt<Response> | undefined> {
  const { breaker } = upstream;
  const awaited = isModelCall ? upstream.awaited : undefined;
  const passed = breaker.begin(userId);
  if (!passed) return undefined;
  awaited?.sent();
  try {
    const response = await send(upstream, passed.connected);
    awaited?.answered();
    passed.ended({ response });
    return { upstream, response };
  } catch (error) {
    awaited?.failed(error);
    passed.ended({ error });
    if (error instanceof OutboundError) return { upstream, error };
    throw error;
  }
}

/** The result of one attempt: a response's status and headers, or the code of a failure. */
type UpstreamResult = { readonly status: number; readonly headers: HeaderValues } | { readonly code: OutboundCode };

const retriedStatuses = new Set([408, 409, 429]);
const retriedCodes: ReadonlySet<string> = new Set([...connectionFailures, 'reset']);

/** Whether the same upstream would fail again. A proxy counts credentials that it has refused, and may lock their account. */
function isLasting(code: OutboundCode): boolean {
  return code === 'invalid_response' || code === 'proxy_refused';
}

/** Whether another attempt may succeed. An upstream's `x-should-retry` decides, where it is sent. */
function isRetryable(result: UpstreamResult): boolean {
  if ('code' in result) return retriedCodes.has(result.code) && !isLasting(result.code);
  const { status, headers } = result;
  if (status < 400) return false;
  if (headers['x-should-retry'] === 'false') return false;
  return headers['x-should-retry'] === 'true' || retriedStatuses.has(status) || status >= 500;
}

/** The wait an upstream asks for (RFC 9110, section 10.2.3; `retry-after-ms` is OpenAI's). */
function requestedWait(headers: HeaderValues, now: number): number | undefined {
  const milliseconds = headers['retry-after-ms'];
  const isNumber = typeof milliseconds === 'string' && /^\s*\d+(\.\d+)?\s*$/.test(milliseconds);
  return isNumber ? Number(milliseconds) : retryAfterWait(headers['retry-after'], now);
}

/**
 * How long to wait before the same upstream is tried again: what it asks for, else 100 ms, doubling, with up to half of it
 * at random.
 * @param tries how many there have been
 */
function waitBefore(result: UpstreamResult, tries: number, now: number, random: () => number): number {
  const requestedDelay = 'headers' in result ? requestedWait(result.headers, now) : undefined;
  return requestedDelay ?? 100 * 2 ** (tries - 1) * (0.5 + random() / 2);
}

/**
 * Keeps retries a small part of all calls, so that they cannot double the load on providers that are failing already:
 * every call earns a tenth of a retry, and the budget starts with ten.
 */
class RetryBudget {
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
