import type { GatewayError } from '../../errors.ts';
import { OutboundError } from '../../outbound/outbound-error.ts';
import { type Deadline, pause } from '../call-deadline.ts';
import { failure, failureFrom } from '../failure.ts';
import type { HeaderValues } from '../headers.ts';
import { isBreakerOpen, isConnectionFailure } from './breaker.ts';
import { isRetryable, type ResponseStatus, type RetryPolicy, type UpstreamResult, waitBefore } from './retry-policy.ts';
import type { Upstream } from './upstream.ts';
import type { CallPlace } from './upstream-calls.ts';

/** A response, as the upstreams are tried for it. */
export interface RoutedResponse extends ResponseStatus {
  readonly headers: HeaderValues;
  readonly data: { destroy(): void };
}

/** An upstream's response, whatever its status, with its body still to come. */
export interface UpstreamResponse<Response extends RoutedResponse> {
  readonly upstream: Upstream;
  readonly response: Response;
}

/** One call, as the upstreams are tried for it. */
export interface RoutedCall<Response extends RoutedResponse> {
  /** The account. */
  readonly userId: string;
  /** The upstreams, in the order in which they are tried. */
  readonly order: readonly Upstream[];
  readonly deadline: Deadline;
  /** Afterwards it is a place at the upstream that answered. */
  readonly place: CallPlace;
  /** Sends the request to one upstream. Rejects with an OutboundError. */
  send(upstream: Upstream): Promise<Response>;
}

interface Attempt<Response extends RoutedResponse> {
  readonly upstream: Upstream;
  readonly response?: Response;
  readonly error?: OutboundError;
}

function resultOf({ response, error }: Attempt<RoutedResponse>): UpstreamResult {
  if (response?.errorInside) return { status: response.errorInside.status, headers: response.headers };
  return response ?? (error as OutboundError);
}

function conclude<Response extends RoutedResponse>({
  upstream,
  response,
  error,
}: Attempt<Response>): UpstreamResponse<Response> {
  if (response) return { upstream, response };
  throw failureFrom(error as OutboundError);
}

/** Tries one upstream through its breaker; `undefined` when the breaker is open. */
async function tryUpstream<Response extends RoutedResponse>(
  upstream: Upstream,
  call: RoutedCall<Response>,
): Promise<Attempt<Response> | undefined> {
  try {
    const send = () => upstream.awaited.during(() => call.send(upstream));
    return { upstream, response: await upstream.breaker.run(call.userId, send) };
  } catch (error) {
    if (isBreakerOpen(error)) return undefined;
    if (error instanceof OutboundError) return { upstream, error };
    throw error;
  }
}

/**
 * Tries the upstreams in turn, and again from the first, until one gives a response for the client, or the attempts, the
 * waits or the budget are used up: then the last result stands. Another upstream costs nothing of the budget after a
 * connection that failed: no upstream has got the request yet. An error in a 2xx counts as the status that it names; another upstream may
 * succeed even where it blames the request. Nothing has been sent to the client before it returns.
 * @throws GatewayError when the last result is a failure, or every upstream has an open breaker or no place for the call
 */
export async function tryUpstreams<Response extends RoutedResponse>(
  call: RoutedCall<Response>,
  policy: RetryPolicy,
): Promise<UpstreamResponse<Response>> {
  const { deadline } = call;
  const candidates = [...call.order];
  // another upstream is tried at once, the same one again only after a wait; by `performance.now()`
  const readyAt = candidates.map(() => 0);
  const giveUp = (index: number): void => {
    candidates.splice(index, 1);
    readyAt.splice(index, 1);
  };
  let tries = 0;
  let isPaid = false;
  let waited = 0;
  let last: Attempt<Response> | undefined;
  let placeError: GatewayError | undefined;
  while (candidates.length > 0) {
    const ready = Math.min(...readyAt);
    const next = readyAt.indexOf(ready);
    const wait = Math.max(0, ready - performance.now());
    if (waited + wait > policy.maxWait) break;
    const isRetry = last !== undefined && !(ready === 0 && isConnectionFailure(last.error));
    if (isRetry && !isPaid) {
      if (!policy.budget.spend()) break;
      isPaid = true;
    }
    if (wait > 0) await pause(wait, deadline);
    if (last && deadline.isOver) throw failure('upstream_timeout');
    waited += wait;
    const upstream = candidates[next] as Upstream;
    const noPlaceError = call.place.moveTo(upstream.calls);
    placeError ??= noPlaceError;
    const tried = noPlaceError ? undefined : await tryUpstream(upstream, call);
    if (!tried) {
      giveUp(next);
      continue;
    }
    tries += 1;
    isPaid = false;
    last?.response?.data.destroy();
    last = tried;
    const result = resultOf(tried);
    if (deadline.isOver || tries >= policy.attempts) break;
    if (isRetryable(result)) readyAt[next] = performance.now() + waitBefore(result, tries, Date.now(), Math.random);
    else if (tried.response?.errorInside) giveUp(next);
    else break;
  }
  if (last) return conclude(last);
  throw placeError ?? failure('upstream_unreachable');
}
