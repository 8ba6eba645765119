import { GatewayError } from '../errors.ts';

/** Limits what one account has under way at once in this process. */
export type InFlightLimit = ReturnType<typeof createInFlightLimit>;

/** @param what is counted, in the plural, as in `resends` */
export function createInFlightLimit(limit: number, what: string) {
  const counts = new Map<string, number>();

  return {
    /**
     * Counts one more, until what is returned is called.
     * @throws GatewayError `rate_limit_exceeded` when it is one too many
     */
    enter(userId: string): () => void {
      const count = counts.get(userId) ?? 0;
      if (count >= limit) {
        const message = `This account already has the maximum of ${limit} ${what} under way; try again when one has ended`;
        throw new GatewayError('rate_limit_exceeded', message, { headers: { 'retry-after': '1' } });
      }
      counts.set(userId, count + 1);
      let hasEnded = false;
      return () => {
        if (hasEnded) return;
        hasEnded = true;
        const others = (counts.get(userId) ?? 1) - 1;
        if (others === 0) counts.delete(userId);
        else counts.set(userId, others);
      };
    },
  };
}

interface Account {
  running: number;
  readonly waiting: (() => void)[];
}

/**
 * Limits how many requests of one account run at once. The others of that account wait in line, first come, first served, so
 * that a burst of thousands does not take the database or the process from other accounts. p-limit has one line for all, and a limit
 * of it for each account would have to be removed when the account has no requests.
 */
export class AccountTurns {
  readonly #limit: number;
  readonly #accounts = new Map<string, Account>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Runs the work when it is the account's turn, then lets the next one run, whether it succeeds or fails. */
  async run<T>(userId: string, work: () => Promise<T>): Promise<T> {
    const account = this.#accounts.get(userId) ?? { running: 0, waiting: [] };
    this.#accounts.set(userId, account);
    if (account.running < this.#limit) account.running += 1;
    else await new Promise<void>((resolve) => account.waiting.push(resolve));
    try {
      return await work();
    } finally {
      // the next in line gets the place, so that no newcomer overtakes those who wait
      const next = account.waiting.shift();
      if (!next) account.running -= 1;
      if (account.running === 0) this.#accounts.delete(userId);
      next?.();
    }
  }
}

/**
 * Limits how many bytes one process holds for its accounts: bodies of requests, and on WebSockets messages that are not whole and what waits for a
 * side that does not read. An account may hold as much as is still free. So one account alone gets half of the memory, and there is always some
 * left for another.
 */
export class AccountMemory {
  readonly #size: number;
  #used = 0;
  readonly #byAccount = new Map<string, number>();

  /** @param size bytes. @default no limit */
  constructor(size = Number.POSITIVE_INFINITY) {
    this.#size = size;
  }

  /** What all accounts hold. Bytes. */
  get used(): number {
    return this.#used;
  }

  /**
   * Takes so many bytes more for an account, or gives so many back.
   * @param held how many of the account's the caller holds already
   * @throws GatewayError `rate_limit_exceeded` or `overloaded` when there is no room for more
   */
  change(userId: string, bytes: number, held: number): void {
    const ofAccount = this.#byAccount.get(userId) ?? 0;
    const after = ofAccount + bytes;
    if (bytes > 0 && after > this.#size - this.#used) throw noRoom(ofAccount > held);
    this.#used += bytes;
    if (after > 0) this.#byAccount.set(userId, after);
    else this.#byAccount.delete(userId);
  }
}

/** What one request or one WebSocket holds of the memory, until it is released. */
export class MemoryReservation {
  readonly #memory: AccountMemory;
  readonly #userId: string;
  #bytes = 0;
  #isReleased = false;

  constructor(memory: AccountMemory, userId: string) {
    this.#memory = memory;
    this.#userId = userId;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Holds so many bytes from now on. Does nothing once it is released. @throws GatewayError as {@link AccountMemory.change} does; then it holds what it held */
  resize(bytes: number): void {
    if (this.#isReleased || bytes === this.#bytes) return;
    this.#memory.change(this.#userId, bytes - this.#bytes, this.#bytes);
    this.#bytes = bytes;
  }

  release(): void {
    this.resize(0);
    this.#isReleased = true;
  }
}

/** @param hasOthers whether the account holds something else, so that it can do less at once; for any other the gateway is full */
function noRoom(hasOthers: boolean): GatewayError {
  const headers = { 'retry-after': '1' };
  if (!hasOthers) {
    const message = 'The gateway holds as many bytes of requests and messages as it can; try again in 1 s';
    return new GatewayError('overloaded', message, { headers });
  }
  const message =
    'This account has too many bytes under way at once; send fewer large requests or messages at a time, read what comes, and try again in 1 s';
  return new GatewayError('rate_limit_exceeded', message, { headers });
}

/**
 * How many shared places one account may use: a part of those that the others leave free, and at least one. The more accounts
 * there are, the fewer each gets, and some places stay free for the next (dynamic threshold, Choudhury and Hahne, 1998).
 * @param left places that the others do not use
 * @param part of them, as in 2 of 3
 */
export function dynamicThreshold(left: number, part: number, of: number): number {
  return Math.max(1, Math.floor((part * left) / of));
}
