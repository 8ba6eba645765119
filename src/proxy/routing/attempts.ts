import type { GatewayError } from '../../errors.ts';
import type { OutboundResponse } from '../../outbound/exchange.ts';
import { OutboundError } from '../../outbound/outbound-error.ts';
import { type Cutoff, pause } from '../call-deadline.ts';
import { failure, failureOf } from '../failure.ts';
import { isBroken } from './breaker.ts';
import { isRetryable, type Outcome, type RetryBudget, waitBefore } from './retry.ts';
import type { Upstream } from './upstream.ts';
import type { CallPlace } from './upstream-calls.ts';

/** An upstream's answer, whatever its status, its body still on its way. */
export interface Answer {
  readonly upstream: Upstream;
  readonly response: OutboundResponse;
}

/** What tries are limited by. */
export interface RetryPolicy {
  readonly attempts: number;
  /** Milliseconds, all waits of one call together. */
  readonly maxWait: number;
  readonly budget: RetryBudget;
}

/** The same for one call of an account. */
export interface CallPolicy extends RetryPolicy {
  readonly userId: string;
  /** Ends up at the upstream that answered. */
  readonly place: CallPlace;
}

type Ask = (upstream: Upstream) => Promise<OutboundResponse>;
type Try = { readonly upstream: Upstream; readonly response?: OutboundResponse; readonly error?: OutboundError };

function outcomeOf({ response, error }: Try): Outcome {
  return response ?? (error as OutboundError);
}

function conclude({ upstream, response, error }: Try): Answer {
  if (response) return { upstream, response };
  throw failureOf(error as OutboundError);
}

/** Asks one upstream through its breaker; `undefined` when the breaker kept the call away. */
async function tryOne(upstream: Upstream, userId: string, ask: Ask): Promise<Try | undefined> {
  try {
    return { upstream, response: await upstream.breaker.run(userId, () => ask(upstream)) };
  } catch (error) {
    if (isBroken(error)) return undefined;
    if (error instanceof OutboundError) return { upstream, error };
    throw error;
  }
}

/**
 * Asks upstreams in turn, around again when all have been asked, until one answers what a caller should see or the tries,
 * the waits or the budget are used up: then the last outcome stands. Nothing has been sent down before it returns.
 * @throws GatewayError when the last outcome is a failure, or every upstream is left alone or has no place for the call
 */
export async function askInTurn(
  order: readonly Upstream[],
  ask: Ask,
  policy: CallPolicy,
  cutoff: Cutoff,
): Promise<Answer> {
  const candidates = [...order];
  // another upstream is asked at once, the same one again only after a while; by `performance.now()`
  const readyAt = candidates.map(() => 0);
  let tries = 0;
  let paid = true;
  let waited = 0;
  let last: Try | undefined;
  let refusal: GatewayError | undefined;
  while (candidates.length > 0) {
    const ready = Math.min(...readyAt);
    const next = readyAt.indexOf(ready);
    const wait = Math.max(0, ready - performance.now());
    if (waited + wait > policy.maxWait || !(paid || policy.budget.spend())) break;
    paid = true;
    if (wait > 0) await pause(wait, cutoff);
    if (last && cutoff.isOver) throw failure('upstream_timeout');
    waited += wait;
    const upstream = candidates[next] as Upstream;
    const noPlace = policy.place.moveTo(upstream.calls);
    refusal ??= noPlace;
    const tried = noPlace ? undefined : await tryOne(upstream, policy.userId, ask);
    if (!tried) {
      candidates.splice(next, 1);
      readyAt.splice(next, 1);
      continue;
    }
    tries += 1;
    paid = false;
    last?.response?.data.destroy();
    last = tried;
    const outcome = outcomeOf(tried);
    if (cutoff.isOver || !isRetryable(outcome) || tries >= policy.attempts) break;
    readyAt[next] = performance.now() + waitBefore(outcome, tries, Date.now(), Math.random);
  }
  if (last) return conclude(last);
  throw refusal ?? failure('upstream_unreachable');
}
