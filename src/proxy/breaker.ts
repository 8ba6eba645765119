import {
  BrokenCircuitError,
  CircuitState,
  ConsecutiveBreaker,
  circuitBreaker,
  ExponentialBackoff,
  handleWhen,
} from 'cockatiel';
import type { OutboundResponse } from '../outbound/exchange.ts';
import { OutboundError } from '../outbound/outbound-error.ts';

/** Failures in a row after which an upstream is left alone. */
const failuresInARow = 5;
/** How long it is left alone before one call tries it again; doubles up to the maximum. Milliseconds. */
const rest = { initialDelay: 1_000, maxDelay: 30_000 };

/** Keeps calls away from an upstream that has failed again and again. */
export interface Breaker {
  /** Runs a call, or rejects at once with an error for which {@link isBroken} holds. */
  run(call: () => Promise<OutboundResponse>): Promise<OutboundResponse>;
}

/** Whether an error says that the upstream is ill: not that a caller left, nor that the gateway closes. */
function isFailure(error: Error): boolean {
  return error instanceof OutboundError && !['aborted', 'invalid_request', 'closed'].includes(error.code);
}

function hasFailed({ status }: OutboundResponse): boolean {
  return status >= 500;
}

export function createBreaker(): Breaker {
  const policy = circuitBreaker(
    handleWhen(isFailure).orWhenResult((response) => hasFailed(response as OutboundResponse)),
    { halfOpenAfter: new ExponentialBackoff(rest), breaker: new ConsecutiveBreaker(failuresInARow) },
  );
  let failing = false;

  /** While all is well the library is not asked: a success after a success changes nothing. */
  async function whileClosed(call: () => Promise<OutboundResponse>): Promise<OutboundResponse> {
    let response: OutboundResponse;
    try {
      response = await call();
    } catch (error) {
      if (policy.state !== CircuitState.Closed || !isFailure(error as Error)) throw error;
      failing = true;
      return policy.execute(() => Promise.reject(error));
    }
    // what was let through is answered, even if others have opened the circuit since
    if (policy.state !== CircuitState.Closed || !(failing || hasFailed(response))) return response;
    failing = hasFailed(response);
    return policy.execute(() => Promise.resolve(response));
  }

  return {
    run(call) {
      // the library would have everyone wait for the one call that tries; that may take minutes
      if (policy.state === CircuitState.HalfOpen) return Promise.reject(new BrokenCircuitError());
      return policy.state === CircuitState.Closed ? whileClosed(call) : policy.execute(call);
    },
  };
}

/** Whether a call was kept away and never made. */
export function isBroken(error: unknown): boolean {
  return error instanceof BrokenCircuitError;
}
