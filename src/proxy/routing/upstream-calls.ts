import { GatewayError } from '../../errors.ts';
import { dynamicThreshold } from '../../fairness/dynamic-threshold.ts';

const retryAfter = { headers: { 'retry-after': '1' } };

/** The calls under way to one upstream in this process, shared by account. */
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

  /** Counts one more call of the account, unless there is no place for it: then what the account is told. */
  enter(userId: string): GatewayError | undefined {
    const accountCalls = this.#byAccount.get(userId) ?? 0;
    // two thirds of the places that the others leave: so there is one for the next account
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
  const message = `This account has ${accountCalls} model calls under way, as many as it may have now; send the request again when one has ended`;
  return new GatewayError('rate_limit_exceeded', message, retryAfter);
}

function full(): GatewayError {
  const message = 'The gateway has as many calls under way to the model provider as it may have; try again in 1 s';
  return new GatewayError('overloaded', message, retryAfter);
}

/** The place that one call has, at one upstream at a time. */
export class CallPlace {
  readonly #userId: string;
  #upstream: UpstreamCalls | undefined;

  constructor(userId: string) {
    this.#userId = userId;
  }

  /** Takes a place at an upstream and gives back the one before; where there is none, keeps that one and tells why. */
  moveTo(upstream: UpstreamCalls): GatewayError | undefined {
    if (upstream === this.#upstream) return undefined;
    const error = upstream.enter(this.#userId);
    if (error) return error;
    this.release();
    this.#upstream = upstream;
    return undefined;
  }

  /** The call has no place any more. Doing it again changes nothing. */
  release(): void {
    this.#upstream?.leave(this.#userId);
    this.#upstream = undefined;
  }
}
