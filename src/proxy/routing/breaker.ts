import {
  BrokenCircuitError,
  CircuitState,
  ConsecutiveBreaker,
  circuitBreaker,
  ExponentialBackoff,
  handleWhen,
} from 'cockatiel';
import { OutboundError } from '../../outbound/outbound-error.ts';
import type { ResponseStatus } from './retry-policy.ts';

/** Failures in a row that open the breaker. */
const failuresInARow = 5;
/** How long it stays open before one call tries the upstream again; doubles up to the maximum. Milliseconds. */
const halfOpenDelays = { initialDelay: 1_000, maxDelay: 30_000 };

/** The most accounts whose failures are remembered, for each upstream. */
const accountsKept = 10_000;

/** Keeps calls away from an upstream that has failed again and again. */
export interface Breaker {
  /** Runs a call of an account, or rejects at once with an error for which {@link isBreakerOpen} holds. */
  run<Response extends ResponseStatus>(userId: string, call: SendCall<Response>): Promise<Response>;
  /** An answer of 2xx that began well has ended. @param hasFailed whether it said later that the upstream has failed */
  recordEnd(userId: string, hasFailed: boolean): void;
  /** For the calls of every account. */
  readonly state: BreakerState;
}

/** `half_open` while one call tries the upstream again. Only while it is `closed`, all calls are let through. */
export type BreakerState = 'closed' | 'open' | 'half_open';

type SendCall<Response> = () => Promise<Response>;

interface Circuit {
  run<Response extends ResponseStatus>(call: SendCall<Response>): Promise<Response>;
  /** Counts a call that was made without `run`. It keeps its outcome, even if other calls have opened the circuit since. */
  count<Response extends ResponseStatus>(outcome: Promise<Response>): Promise<Response>;
  /** Counts an answer that began well, now that it has ended. */
  recordEnd(hasFailed: boolean): void;
  /** Whether the last call has succeeded. */
  isHealthy(): boolean;
  readonly state: BreakerState;
}

const connectionFailures: ReadonlySet<string> = new Set([
  'dns_failed',
  'connect_refused',
  'connect_failed',
  'connect_timeout',
  'tls_failed',
]);
/** Not the upstream's fault: the client left, the request cannot be sent, or the gateway closes. */
const ignoredFailures: ReadonlySet<string> = new Set(['aborted', 'invalid_request', 'closed']);

/** It failed before the request was sent: no account can have caused it. */
export function isConnectionFailure(error: unknown): boolean {
  return error instanceof OutboundError && connectionFailures.has(error.code);
}

/** It failed after the request was sent: the request may have caused it. */
function isRequestFailure(error: unknown): boolean {
  return error instanceof OutboundError && !connectionFailures.has(error.code) && !ignoredFailures.has(error.code);
}

function hasFailed({ status, errorInside }: ResponseStatus): boolean {
  return status >= 500 || errorInside?.blamesRequest === false;
}

/** What an answer counts as that has failed after its beginning. */
const failedLate: ResponseStatus = { status: 502 };
const endedWell: ResponseStatus = { status: 200 };

function createCircuit(
  isFailure: (error: unknown) => boolean,
  isFailed: (response: ResponseStatus) => boolean,
): Circuit {
  const policy = circuitBreaker(
    handleWhen(isFailure).orWhenResult((response) => isFailed(response as ResponseStatus)),
    { halfOpenAfter: new ExponentialBackoff(halfOpenDelays), breaker: new ConsecutiveBreaker(failuresInARow) },
  );
  let failing = false;
  /** Whether the last failure came after the beginning of its answer. Then only an end says that the upstream works again. */
  let failedAfterHead = false;

  /** Skips the library while all calls succeed: a success after a success changes nothing. */
  async function whileClosed<Response extends ResponseStatus>(call: SendCall<Response>): Promise<Response> {
    let response: Response;
    try {
      response = await call();
    } catch (error) {
      if (policy.state !== CircuitState.Closed || !isFailure(error)) throw error;
      failing = true;
      return policy.execute(() => Promise.reject(error));
    }
    // this call has its answer, even if others have opened the circuit since
    const isFailing = isFailed(response);
    if (policy.state !== CircuitState.Closed || !(isFailing || (failing && !failedAfterHead))) return response;
    failing = isFailing;
    return policy.execute(() => Promise.resolve(response));
  }

  return {
    run(call) {
      // the library would let all calls wait for the one that tries; that may take minutes
      if (policy.state === CircuitState.HalfOpen) return Promise.reject(new BrokenCircuitError());
      return policy.state === CircuitState.Closed ? whileClosed(call) : policy.execute(call);
    },
    count: (outcome) => whileClosed(() => outcome),
    recordEnd(hasFailedLate) {
      if (policy.state !== CircuitState.Closed || !(hasFailedLate || failedAfterHead)) return;
      failedAfterHead = hasFailedLate;
      failing = hasFailedLate;
      void policy.execute(() => Promise.resolve(hasFailedLate ? failedLate : endedWell));
    },
    isHealthy: () => policy.state === CircuitState.Closed && !failing,
    get state() {
      if (policy.state === CircuitState.Closed) return 'closed';
      return policy.state === CircuitState.HalfOpen ? 'half_open' : 'open';
    },
  };
}

/**
 * Failed connections open the breaker for every account. A failure after the request was sent may be caused by that request, so it
 * counts for its own account alone: no account can block an upstream for the others.
 */
export function createBreaker(): Breaker {
  const connections = createCircuit(isConnectionFailure, () => false);
  const accounts = new Map<string, Circuit>();

  function remember(userId: string, circuit: Circuit): void {
    accounts.delete(userId);
    if (circuit.isHealthy()) return;
    accounts.set(userId, circuit);
    const [oldest] = accounts.keys();
    if (accounts.size > accountsKept && oldest !== undefined) accounts.delete(oldest);
  }

  /** An account whose calls all succeed has no circuit. */
  async function runForAccount<Response extends ResponseStatus>(
    userId: string,
    call: SendCall<Response>,
  ): Promise<Response> {
    const existing = accounts.get(userId);
    if (existing) return existing.run(call).finally(() => remember(userId, existing));
    const outcome = call();
    const isFailing = await outcome.then(hasFailed, isRequestFailure);
    if (!isFailing) return outcome;
    const circuit = accounts.get(userId) ?? createCircuit(isRequestFailure, hasFailed);
    // at once, so that all calls that fail at this moment are counted together
    accounts.set(userId, circuit);
    return circuit.count(outcome).finally(() => remember(userId, circuit));
  }

  return {
    run: (userId, call) => connections.run(() => runForAccount(userId, call)),
    recordEnd(userId, hasFailedLate) {
      const existing = accounts.get(userId);
      if (!existing && !hasFailedLate) return;
      const circuit = existing ?? createCircuit(isRequestFailure, hasFailed);
      circuit.recordEnd(hasFailedLate);
      remember(userId, circuit);
    },
    get state() {
      return connections.state;
    },
  };
}

/** Whether a call was not made because the breaker is open. */
export function isBreakerOpen(error: unknown): boolean {
  return error instanceof BrokenCircuitError;
}
