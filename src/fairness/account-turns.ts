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
      this.#end(userId, account);
    }
  }

  /** Hands the place to the next in line, so that no newcomer overtakes those who wait. */
  #end(userId: string, account: Account): void {
    const next = account.waiting.shift();
    if (next) {
      next();
      return;
    }
    account.running -= 1;
    if (account.running === 0) this.#accounts.delete(userId);
  }
}
