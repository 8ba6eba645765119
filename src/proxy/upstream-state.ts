import { GatewayError } from '../errors.ts';
import { dynamicThreshold } from '../fairness/account-shares.ts';
import { OutboundError } from '../outbound/outbound-error.ts';
import type { ResponseStatus } from './inspect-answer.ts';

const retryAfter = { headers: { 'retry-after': '1' } };

const readClock = (): number => performance.now();

/** The calls under way to one upstream in this process, and each account's share of them. */
export class UpstreamCalls {
  readonly #limit: number;
  readonly #byAccount = new Map<string, number>();
  underWay = 0;

  /** @param limit calls under way at once */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Counts one more call of the account. @returns the error for the account when there is no place */
  enter(userId: string): GatewayError | undefined {
    const accountCalls = this.#byAccount.get(userId) ?? 0;
    // two thirds of the places that the others leave free: so one is left for the next account
    if (accountCalls >= dynamicThreshold(this.#limit - this.underWay + accountCalls, 2, 3)) {
      const message = `This account already has ${accountCalls} model calls under way, its maximum at present; send the request again when one has ended`;
      return new GatewayError('rate_limit_exceeded', message, retryAfter);
    }
    if (this.underWay >= this.#limit) {
      const message = 'The gateway has reached its limit of calls to the model provider; try again in 1 s';
      return new GatewayError('overloaded', message, retryAfter);
    }
    this.#byAccount.set(userId, accountCalls + 1);
    this.underWay += 1;
    return undefined;
  }

  /** A call that was counted has ended. */
  leave(userId: string): void {
    const accountCalls = (this.#byAccount.get(userId) ?? 0) - 1;
    if (accountCalls > 0) this.#byAccount.set(userId, accountCalls);
    else this.#byAccount.delete(userId);
    this.underWay -= 1;
  }
}

/** The place that one call has, at one upstream at a time. */
export class CallPlace {
  readonly #userId: string;
  #upstream: UpstreamCalls | undefined;

  constructor(userId: string) {
    this.#userId = userId;
  }

  /** Takes a place at an upstream and gives back the one before. @returns the error when there is none; the call then keeps its place */
  moveTo(upstream: UpstreamCalls): GatewayError | undefined {
    if (upstream === this.#upstream) return undefined;
    const error = upstream.enter(this.#userId);
    if (error) return error;
    this.release();
    this.#upstream = upstream;
    return undefined;
  }

  /** Gives the place back. Doing it again changes nothing. */
  release(): void {
    this.#upstream?.leave(this.#userId);
    this.#upstream = undefined;
  }
}

/** From so many calls without a response on, an upstream may count as hanging. */
const manyCalls = 5;
/** How long none may be answered; less where a call is given up sooner. Milliseconds. */
const longestSilence = 300_000;
/** How long calls that were given up count while none waits. Milliseconds. */
const givenUpFor = 900_000;

/** The model calls that wait for a response of one upstream, and whether it gives any. */
export class AwaitedResponses {
  readonly #maxSilence: number;
  readonly #now: () => number;
  /** Requests whose response has not begun. */
  waiting = 0;
  /** Calls that were given up since the last response. */
  #givenUp = 0;
  #lastGivenUp = 0;
  /** When the last response began, or, without any since, the first call that waits or was given up. */
  #silentSince = 0;

  /** @param firstByte after how many milliseconds a call is given up. @param now milliseconds. @default those of `performance.now()` */
  constructor(firstByte: number, now = readClock) {
    this.#maxSilence = Math.min(longestSilence, firstByte);
    this.#now = now;
  }

  /**
   * Whether five calls or more wait or were given up, and none has been answered for five minutes, or for the time after which a call is
   * given up if that is shorter. The next response ends it, or a quarter of an hour without calls.
   */
  get isHanging(): boolean {
    if (this.waiting === 0 && this.#now() - this.#lastGivenUp >= givenUpFor) return false;
    return this.waiting + this.#givenUp >= manyCalls && this.#now() - this.#silentSince >= this.#maxSilence;
  }

  /** A request is sent. Call one of the others when it has a response, or will have none. */
  sent(): void {
    if (this.waiting + this.#givenUp === 0) this.#silentSince = this.#now();
    this.waiting += 1;
  }

  /** The head of its response is there. */
  answered(): void {
    this.waiting -= 1;
    this.#givenUp = 0;
    this.#silentSince = this.#now();
  }

  /** It has failed. */
  failed(error: unknown): void {
    this.waiting -= 1;
    if (!(error instanceof OutboundError) || error.code !== 'timeout') return;
    this.#givenUp += 1;
    this.#lastGivenUp = this.#now();
  }
}

/** How long an upstream's refusal is remembered. Milliseconds. */
const refusedFor = 3_600_000;
/** Of how many models it is known what an upstream has answered: callers choose their names where a pattern serves them. */
const mostModels = 1_000;

/**
 * Whether an upstream's streams are asked for their usage: by its options, and by what it has answered to that. One model that refuses says
 * nothing of the others, whose usage would then be estimated for every account.
 */
export class StreamUsage {
  readonly #isWanted: boolean;
  readonly #now: () => number;
  /** Until when a model is not asked, by the upstream's name for it: those that have refused, and at 0 those that have accepted. */
  readonly #refusedUntil = new Map<string | undefined, number>();
  #wasRefused = false;

  /** @param now milliseconds. @default those of `performance.now()` */
  constructor(isWanted: boolean, now = readClock) {
    this.#isWanted = isWanted;
    this.#now = now;
  }

  /** @param model the upstream's name for it; `undefined` where a call names none */
  isAskedFor(model: string | undefined): boolean {
    return this.#isWanted && this.#now() >= (this.#refusedUntil.get(model) ?? 0);
  }

  /** Whether it has answered a call of this model that asked for usage. */
  hasAccepted(model: string | undefined): boolean {
    return this.#refusedUntil.get(model) === 0;
  }

  accepted(model: string | undefined): void {
    if (!this.hasAccepted(model)) this.#remember(model, 0);
  }

  /** It refuses to be asked: for an hour it is not. @returns whether that is the first time */
  refused(model: string | undefined): boolean {
    const isNew = !this.#wasRefused;
    this.#wasRefused = true;
    this.#remember(model, this.#now() + refusedFor);
    return isNew;
  }

  #remember(model: string | undefined, refusedUntil: number): void {
    this.#refusedUntil.delete(model);
    this.#refusedUntil.set(model, refusedUntil);
    if (this.#refusedUntil.size <= mostModels) return;
    const [oldest] = this.#refusedUntil.keys();
    this.#refusedUntil.delete(oldest);
  }
}

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
class Circuit {
  state: BreakerState = 'closed';
  /** Failures since the last success. */
  #failures = 0;
  /** Whether one of them came after the beginning of its answer. Then only an end says that the upstream works again. */
  #failedLate = false;
  #delay = 0;
  #triesAgainAt = 0;

  /** Whether there is nothing to remember. */
  get isHealthy(): boolean {
    return this.state === 'closed' && this.#failures === 0;
  }

  /** Whether a call may begin. */
  isPassable(now: number): boolean {
    return this.state === 'closed' || (this.state === 'open' && now >= this.#triesAgainAt);
  }

  /** A call begins. @returns whether it is the one that tries the upstream again */
  begin(): boolean {
    if (this.state === 'closed') return false;
    this.state = 'half_open';
    return true;
  }

  /**
   * A call has its answer, or has failed. One that began before others opened the circuit counts for nothing.
   * @param isTrial what {@link begin} has returned for it
   */
  count(outcome: Outcome, isTrial: boolean, now: number): void {
    if (this.state !== 'closed' && !isTrial) return;
    if (outcome === 'failure') {
      this.#fail(now);
      return;
    }
    if (outcome === 'success' && (isTrial || !this.#failedLate)) this.#succeed();
    this.state = 'closed';
    this.#delay = 0;
  }

  /** An answer that began well has ended. @param hasFailed whether it said later that the upstream has failed */
  countEnd(hasFailed: boolean, now: number): void {
    if (this.state !== 'closed') return;
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
    this.state = 'open';
  }
}

/** The codes of connections that were not made. */
export const connectionFailures: ReadonlySet<string> = new Set([
  'dns_failed',
  'connect_refused',
  'connect_failed',
  'connect_timeout',
  'proxy_unreachable',
  'proxy_refused',
  'tls_failed',
]);
/** Not the upstream's fault: the client left, the request cannot be sent, or the gateway closes. */
const ignoredFailures: ReadonlySet<string> = new Set(['aborted', 'invalid_request', 'closed']);

/** It failed before the request was sent: no account can have caused it. */
export function isConnectionFailure(error: unknown): boolean {
  return error instanceof OutboundError && connectionFailures.has(error.code);
}

/** What a call says of the requests of its account: one that failed after it was sent may have caused that. */
function requestOutcome({ response, error }: CallResult): Outcome {
  if (response) return response.status >= 500 || response.errorInside?.blamesRequest === false ? 'failure' : 'success';
  if (!(error instanceof OutboundError) || isConnectionFailure(error)) return 'neither';
  // any upstream closes kept connections, and this request could not be sent again
  if (error.reusedSocket) return 'neither';
  return ignoredFailures.has(error.code) ? 'neither' : 'failure';
}

/** The beginning of an answer, or why there is none. */
interface CallResult {
  readonly response?: ResponseStatus;
  readonly error?: unknown;
}

/** A call that the breaker has let through. */
interface PassedCall {
  /** It has a connection: others need not wait for its answer to know that there are some again. */
  connected(): void;
  /** To be called once, with what has come of it. */
  ended(result: CallResult): void;
}

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

  /** @param now milliseconds. @default those of `performance.now()` */
  constructor(now = readClock) {
    this.#now = now;
  }

  /** For the calls of every account. */
  get state(): BreakerState {
    return this.#connections.state;
  }

  /** Lets a call of an account through; `undefined` where it must not be made. */
  begin(userId: string): PassedCall | undefined {
    const account = this.#accounts.get(userId);
    const now = this.#now();
    if (!this.#connections.isPassable(now) || account?.isPassable(now) === false) return undefined;
    let triesConnection = this.#connections.begin();
    const triesAccount = account?.begin() ?? false;
    return {
      connected: () => {
        if (triesConnection) this.#connections.count('success', true, this.#now());
        triesConnection = false;
      },
      ended: (result) => {
        const ofConnection = result.response ? 'success' : isConnectionFailure(result.error) ? 'failure' : 'neither';
        this.#connections.count(ofConnection, triesConnection, this.#now());
        const outcome = requestOutcome(result);
        const circuit = this.#accounts.get(userId) ?? account ?? (outcome === 'failure' ? new Circuit() : undefined);
        // the account may have another circuit by now
        if (!circuit) return;
        circuit.count(outcome, triesAccount && circuit === account, this.#now());
        this.#remember(userId, circuit);
      },
    };
  }

  /** An answer of 2xx that began well has ended. @param hasFailed whether it said later that the upstream has failed */
  countEnd(userId: string, hasFailed: boolean): void {
    const circuit = this.#accounts.get(userId) ?? (hasFailed ? new Circuit() : undefined);
    if (!circuit) return;
    circuit.countEnd(hasFailed, this.#now());
    this.#remember(userId, circuit);
  }

  #remember(userId: string, circuit: Circuit): void {
    this.#accounts.delete(userId);
    if (circuit.isHealthy) return;
    this.#accounts.set(userId, circuit);
    const [oldest] = this.#accounts.keys();
    if (this.#accounts.size > accountsKept && oldest !== undefined) this.#accounts.delete(oldest);
  }
}
