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
 * How many shared places one account may use: a part of those that the others leave free, and at least one. The more accounts
 * there are, the fewer each gets, and some places stay free for the next (dynamic threshold, Choudhury and Hahne, 1998). Pure.
 * @param left places that the others do not use
 * @param part of them, as in 2 of 3
 */
export function dynamicThreshold(left: number, part: number, of: number): number {
  return Math.max(1, Math.floor((part * left) / of));
}
