import { GatewayError } from '../../errors.ts';
import { dynamicThreshold } from '../../fairness/dynamic-threshold.ts';

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
