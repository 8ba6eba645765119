import { GatewayError } from '../errors.ts';
import { dynamicThreshold } from '../fairness/dynamic-threshold.ts';
import { OutboundError } from '../outbound/outbound-error.ts';

const retryAfter = { headers: { 'retry-after': '1' } };

/** The calls under way to one upstream in this process, and each account's share of them. */
export class UpstreamCalls {
  readonly #limit: number;
  readonly #byAccount = new Map<string, number>();
  #underWay = 0;

  /** @param limit calls under way at once */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Calls under way. */
  get underWay(): number {
    return this.#underWay;
  }

  /** Counts one more call of the account. @returns the error for the account when there is no place */
  enter(userId: string): GatewayError | undefined {
    const accountCalls = this.#byAccount.get(userId) ?? 0;
    // two thirds of the places that the others leave free: so one is left for the next account
    if (accountCalls >= dynamicThreshold(this.#limit - this.#underWay + accountCalls, 2, 3))
      return tooMany(accountCalls);
    if (this.#underWay >= this.#limit) return full();
    this.#byAccount.set(userId, accountCalls + 1);
    this.#underWay += 1;
    return undefined;
  }

  /** A call that was counted has ended. */
  leave(userId: string): void {
    const accountCalls = (this.#byAccount.get(userId) ?? 0) - 1;
    if (accountCalls > 0) this.#byAccount.set(userId, accountCalls);
    else this.#byAccount.delete(userId);
    this.#underWay -= 1;
  }
}

function tooMany(accountCalls: number): GatewayError {
  const message = `This account already has ${accountCalls} model calls under way, its maximum at present; send the request again when one has ended`;
  return new GatewayError('rate_limit_exceeded', message, retryAfter);
}

function full(): GatewayError {
  const message = 'The gateway has reached its limit of calls to the model provider; try again in 1 s';
  return new GatewayError('overloaded', message, retryAfter);
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
  #waiting = 0;
  /** Calls that were given up since the last response. */
  #givenUp = 0;
  #lastGivenUp = 0;
  /** When the last response began, or, without any since, the first call that waits or was given up. */
  #silentSince = 0;

  /** @param firstByte after how many milliseconds a call is given up. @param now milliseconds. @default performance.now */
  constructor(firstByte: number, now = () => performance.now()) {
    this.#maxSilence = Math.min(longestSilence, firstByte);
    this.#now = now;
  }

  /** Requests whose response has not begun. */
  get waiting(): number {
    return this.#waiting;
  }

  /**
   * Whether five calls or more wait or were given up, and none has been answered for five minutes, or for the time after which a call is
   * given up if that is shorter. The next response ends it, or a quarter of an hour without calls.
   */
  get isHanging(): boolean {
    if (this.#waiting === 0 && this.#now() - this.#lastGivenUp >= givenUpFor) return false;
    return this.#waiting + this.#givenUp >= manyCalls && this.#now() - this.#silentSince >= this.#maxSilence;
  }

  /** Sends a request; resolves when the head of its response is there. */
  async during<T>(send: () => Promise<T>): Promise<T> {
    if (this.#waiting + this.#givenUp === 0) this.#silentSince = this.#now();
    this.#waiting += 1;
    try {
      const response = await send();
      this.#givenUp = 0;
      this.#silentSince = this.#now();
      return response;
    } catch (error) {
      if (error instanceof OutboundError && error.code === 'timeout') {
        this.#givenUp += 1;
        this.#lastGivenUp = this.#now();
      }
      throw error;
    } finally {
      this.#waiting -= 1;
    }
  }
}

/** How long an upstream's refusal is remembered. Milliseconds. */
const refusedFor = 3_600_000;
/** Of how many models it is known what an upstream has answered: callers choose their names where a pattern serves them. */
const mostModels = 1_000;

/** What an upstream has answered to calls of one model that asked for usage. */
interface Answers {
  readonly isAccepted: boolean;
  /** Milliseconds. */
  readonly refusedUntil: number;
}

const none: Answers = { isAccepted: false, refusedUntil: Number.NEGATIVE_INFINITY };

/**
 * Whether an upstream's streams are asked for their usage: by its options, and by what it has answered to that. One model that refuses says
 * nothing of the others, whose usage would then be estimated for every account.
 */
export class StreamUsage {
  readonly #isWanted: boolean;
  readonly #now: () => number;
  readonly #answers = new Map<string | undefined, Answers>();
  #wasRefused = false;

  /** @param now milliseconds. @default performance.now */
  constructor(isWanted: boolean, now = () => performance.now()) {
    this.#isWanted = isWanted;
    this.#now = now;
  }

  /** @param model the upstream's name for it; `undefined` where a call names none */
  isAskedFor(model: string | undefined): boolean {
    return this.#isWanted && this.#now() >= this.#of(model).refusedUntil;
  }

  /** Whether it has answered a call of this model that asked for usage. */
  hasAccepted(model: string | undefined): boolean {
    return this.#of(model).isAccepted;
  }

  accepted(model: string | undefined): void {
    if (!this.hasAccepted(model)) this.#remember(model, { ...none, isAccepted: true });
  }

  /** It refuses to be asked: for an hour it is not. @returns whether that is the first time */
  refused(model: string | undefined): boolean {
    const isNew = !this.#wasRefused;
    this.#wasRefused = true;
    this.#remember(model, { isAccepted: false, refusedUntil: this.#now() + refusedFor });
    return isNew;
  }

  #of(model: string | undefined): Answers {
    return this.#answers.get(model) ?? none;
  }

  #remember(model: string | undefined, answers: Answers): void {
    this.#answers.delete(model);
    this.#answers.set(model, answers);
    if (this.#answers.size <= mostModels) return;
    const [oldest] = this.#answers.keys();
    this.#answers.delete(oldest);
  }
}
