import { OutboundError } from '../outbound/outbound-error.ts';
import type { ResponseStatus } from './inspect-answer.ts';

/** Failures in a row that open a circuit. */
const failuresInARow = 5;
/** How long it stays open before one call tries the upstream again; doubles up to the maximum. Milliseconds. */
const firstDelay = 1_000;
const longestDelay = 30_000;
/** The most accounts whose failures are remembered, for each upstream. */
const accountsKept = 10_000;

/** `half_open` while one call tries the upstream again. Only while it is `closed`, all calls are let through. */
export type BreakerState = 'closed' | 'open' | 'half_open';

/** How a call counts. `neither` says nothing of the upstream. */
type Outcome = 'success' | 'failure' | 'neither';

/** Counts the calls of one kind, and says whether there may be more. Reads no clock: `now` is in milliseconds. */
export class Circuit {
  #state: BreakerState = 'closed';
  /** Failures since the last success. */
  #failures = 0;
  /** Whether one of them came after the beginning of its answer. Then only an end says that the upstream works again. */
  #failedLate = false;
  #delay = 0;
  #triesAgainAt = 0;

  get state(): BreakerState {
    return this.#state;
  }

  /** Whether there is nothing to remember. */
  get isHealthy(): boolean {
    return this.#state === 'closed' && this.#failures === 0;
  }

  /** Whether a call may begin. */
  isPassable(now: number): boolean {
    return this.#state === 'closed' || (this.#state === 'open' && now >= this.#triesAgainAt);
  }

  /** A call begins. @returns whether it is the one that tries the upstream again */
  begin(): boolean {
    if (this.#state === 'closed') return false;
    this.#state = 'half_open';
    return true;
  }

  /**
   * A call has its answer, or has failed. One that began before others opened the circuit counts for nothing.
   * @param isTrial what {@link begin} has returned for it
   */
  count(outcome: Outcome, isTrial: boolean, now: number): void {
    if (this.#state !== 'closed' && !isTrial) return;
    if (outcome === 'failure') {
      this.#fail(now);
      return;
    }
    if (outcome === 'success' && (isTrial || !this.#failedLate)) this.#succeed();
    this.#state = 'closed';
    this.#delay = 0;
  }

  /** An answer that began well has ended. @param hasFailed whether it said later that the upstream has failed */
  countEnd(hasFailed: boolean, now: number): void {
    if (this.#state !== 'closed') return;
    if (hasFailed) {
      this.#failedLate = true;
      this.#fail(now);
    } else if (this.#failedLate) this.#succeed();
  }

  #succeed(): void {
    this.#failures = 0;
    this.#failedLate = false;
  }

  #fail(now: number): void {
    this.#failures += 1;
    if (this.#failures < failuresInARow) return;
    this.#delay = Math.min(longestDelay, this.#delay * 2 || firstDelay);
    this.#triesAgainAt = now + this.#delay;
    this.#state = 'open';
  }
}

/** The codes of connections that were not made. */
export const connectionFailures: ReadonlySet<string> = new Set([
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

/** What a call says of the connections to its upstream. */
function connectionOutcome({ response, error }: CallResult): Outcome {
  if (response) return 'success';
  return isConnectionFailure(error) ? 'failure' : 'neither';
}

/** What it says of the requests of its account: one that failed after it was sent may have caused that. */
function requestOutcome({ response, error }: CallResult): Outcome {
  if (response) return response.status >= 500 || response.errorInside?.blamesRequest === false ? 'failure' : 'success';
  if (!(error instanceof OutboundError) || isConnectionFailure(error)) return 'neither';
  return ignoredFailures.has(error.code) ? 'neither' : 'failure';
}

/** The beginning of an answer, or why there is none. */
interface CallResult {
  readonly response?: ResponseStatus;
  readonly error?: unknown;
}

/** A call that the breaker has let through: to be called once, with what has come of it. */
type CountResult = (result: CallResult) => void;

/**
 * Keeps calls away from an upstream that has failed again and again. Failed connections keep away those of every account. A failure after
 * the request was sent may be caused by that request, so it counts for its own account alone: no account can block an upstream for the
 * others.
 */
export class Breaker {
  readonly #now: () => number;
  readonly #connections = new Circuit();
  /** Of the accounts whose last call has failed. */
  readonly #accounts = new Map<string, Circuit>();

  /** @param now milliseconds. @default performance.now */
  constructor(now = () => performance.now()) {
    this.#now = now;
  }

  /** For the calls of every account. */
  get state(): BreakerState {
    return this.#connections.state;
  }

  /** Lets a call of an account through; `undefined` where it must not be made. */
  admit(userId: string): CountResult | undefined {
    const account = this.#accounts.get(userId);
    const now = this.#now();
    if (!this.#connections.isPassable(now) || account?.isPassable(now) === false) return undefined;
    const triesConnection = this.#connections.begin();
    const triesAccount = account?.begin() ?? false;
    return (result) => {
      this.#connections.count(connectionOutcome(result), triesConnection, this.#now());
      const outcome = requestOutcome(result);
      const circuit = this.#accounts.get(userId) ?? account ?? (outcome === 'failure' ? new Circuit() : undefined);
      // the account may have another circuit by now
      circuit?.count(outcome, triesAccount && circuit === account, this.#now());
      this.#remember(userId, circuit);
    };
  }

  /** An answer of 2xx that began well has ended. @param hasFailed whether it said later that the upstream has failed */
  countEnd(userId: string, hasFailed: boolean): void {
    const circuit = this.#accounts.get(userId) ?? (hasFailed ? new Circuit() : undefined);
    circuit?.countEnd(hasFailed, this.#now());
    this.#remember(userId, circuit);
  }

  #remember(userId: string, circuit: Circuit | undefined): void {
    if (!circuit) return;
    this.#accounts.delete(userId);
    if (circuit.isHealthy) return;
    this.#accounts.set(userId, circuit);
    const [oldest] = this.#accounts.keys();
    if (this.#accounts.size > accountsKept && oldest !== undefined) this.#accounts.delete(oldest);
  }
}
