import type { HttpResponse } from '../outbound/client.ts';
import { OutboundError } from '../outbound/outbound-error.ts';
import { isBroken } from './breaker.ts';
import { type Cutoff, pause } from './cutoff.ts';
import { failure, failureOf } from './failure.ts';
import type { HeaderValues } from './headers.ts';
import { isRetryable, type Outcome, type RetryBudget, waitBefore } from './retry.ts';
import type { Upstream } from './upstream.ts';

/** An upstream's answer, whatever its status, its body still on its way. */
export interface Answer {
  readonly upstream: Upstream;
  readonly response: HttpResponse;
}

/** What tries are limited by. */
export interface RetryPolicy {
  readonly attempts: number;
  /** Milliseconds, all waits of one call together. */
  readonly maxWait: number;
  readonly budget: RetryBudget;
}

type Ask = (upstream: Upstream) => Promise<HttpResponse>;
type Try = { readonly upstream: Upstream; readonly response?: HttpResponse; readonly error?: OutboundError };

function outcomeOf({ response, error }: Try): Outcome {
  return response ? { status: response.status, headers: response.headers as HeaderValues } : (error as OutboundError);
}

function conclude({ upstream, response, error }: Try): Answer {
  if (response) return { upstream, response };
  throw failureOf(error as OutboundError);
}

/** Asks one upstream through its breaker; `undefined` when the breaker kept the call away. */
async function tryOne(upstream: Upstream, ask: Ask): Promise<Try | undefined> {
  try {
    return { upstream, response: await upstream.breaker.run(() => ask(upstream)) };
  } catch (error) {
    if (isBroken(error)) return undefined;
    if (error instanceof OutboundError) return { upstream, error };
    throw error;
  }
}

/**
 * Asks upstreams in turn, around again when all have been asked, until one answers what a caller should see or the tries,
 * the waits or the budget are used up: then the last outcome stands. Nothing has been sent down before it returns.
 * @throws GatewayError when the last outcome is a failure, or every upstream is being left alone
 */
export async function askInTurn(
  order: readonly Upstream[],
  ask: Ask,
  policy: RetryPolicy,
  cutoff: Cutoff,
): Promise<Answer> {
  const candidates = [...order];
  let tries = 0;
  let waited = 0;
  let last: Try | undefined;
  let next = 0;
  while (candidates.length > 0) {
    next %= candidates.length;
    const tried = await tryOne(candidates[next] as Upstream, ask);
    if (!tried) {
      candidates.splice(next, 1);
      continue;
    }
    tries += 1;
    next += 1;
    last?.response?.data.destroy();
    last = tried;
    const outcome = outcomeOf(tried);
    if (cutoff.aborted || !isRetryable(outcome) || tries >= policy.attempts) break;
    // another upstream is asked at once, the same one again only after a while
    const wait = next < candidates.length ? 0 : waitBefore(outcome, tries, Date.now(), Math.random);
    if (waited + wait > policy.maxWait || !policy.budget.spend()) break;
    waited += wait;
    await pause(wait, cutoff);
    if (cutoff.aborted) throw failure('upstream_timeout');
  }
  if (last) return conclude(last);
  throw failure('upstream_unreachable');
}
