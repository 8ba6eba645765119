interface Account {
  running: number;
  readonly waiting: (() => void)[];
}

/**
 * How many requests of an account are worked on at once. The others of that account wait for their turn, first come,
 * first served, so that a burst of thousands takes neither the database nor the process from the other accounts.
 */
export class AccountTurns {
  readonly #limit: number;
  readonly #accounts = new Map<string, Account>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Does something when it is the account's turn, and makes room for the next afterwards, whatever comes of it. */
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

  /** A place is handed on as it is: nobody who comes meanwhile gets before those who wait. */
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
