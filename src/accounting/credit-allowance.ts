/** What a holder has leased of a balance. Micro-credits. */
export interface AllowanceLease {
  readonly amount: number;
  /** The whole balance, including what other holders have leased. */
  readonly balance: number;
}

interface EndedCall {
  readonly cost: number;
  readonly endedAt: number;
  /** Whether it will not be charged again. */
  isSettled: boolean;
}

/**
 * What one account may spend in this process, and how much of that is reserved for calls: nothing until a lease on
 * the balance. Whole micro-credits.
 */
export class CreditAllowance {
  #limit = 0;
  /** When calls have reserved this much, half of what was left of the limit, the process should lease more of the balance. */
  #lowMark = 0;
  /** Reservations of the calls under way. */
  #underWay = 0;
  /** Ended calls that the balance may not include yet, by usage record, in the order of their ends. */
  readonly #unbooked = new Map<string, EndedCall>();
  #unbookedSum = 0;
  /** The most that the account can have left, after what it has spent in this process. */
  #left = 0;

  /** What is reserved for calls under way, and for ended calls that the balance may not include yet. */
  get reserved(): number {
    return this.#underWay + this.#unbookedSum;
  }

  get unbooked(): string[] {
    return [...this.#unbooked.keys()];
  }

  /** Those of the unbooked calls that will not be charged again: the next balance that is read includes them. */
  get settled(): string[] {
    return [...this.#unbooked].filter(([, { isSettled }]) => isSettled).map(([id]) => id);
  }

  /** This ended call will not be charged again. */
  settle(id: string): void {
    const call = this.#unbooked.get(id);
    if (call) call.isSettled = true;
  }

  /** @param before by the clock of `performance.now()` */
  unbookedBefore(before: number): string[] {
    const ids: string[] = [];
    for (const [id, { endedAt }] of this.#unbooked) {
      if (endedAt >= before) break;
      ids.push(id);
    }
    return ids;
  }

  /** The most that may be reserved at the same time: what was leased last, or less. */
  get limit(): number {
    return this.#limit;
  }

  /** Whether this process should lease more of the balance. */
  get isRunningLow(): boolean {
    return this.reserved >= this.#lowMark;
  }

  /** Whether the account certainly has nothing left, in any process. */
  get isEmpty(): boolean {
    return this.#left <= 0;
  }

  /** @returns whether anything was left; the reservation may exceed it */
  reserve(amount: number): boolean {
    if (this.reserved >= this.#limit) return false;
    this.#underWay += amount;
    return true;
  }

  /** A call ended without cost. */
  release(amount: number): void {
    this.#underWay -= amount;
  }

  /** A call ended and cost this much. */
  spend(amount: number, id: string, cost: number): void {
    this.#underWay -= amount;
    if (cost === 0) return;
    this.#unbooked.set(id, { cost, endedAt: performance.now(), isSettled: false });
    this.#unbookedSum += cost;
    this.#left -= cost;
  }

  /** What these ended calls cost together. */
  unbookedCost(ids: readonly string[]): number {
    return ids.reduce((sum, id) => sum + (this.#unbooked.get(id)?.cost ?? 0), 0);
  }

  /**
   * Call it before you request a smaller lease: from then on another process may have the rest, whether or not this
   * one gets the answer.
   * @param amount what is requested
   * @param booked ended calls that it does not include
   */
  lowerLimit(amount: number, booked: readonly string[]): void {
    this.#limit = Math.min(this.#limit, amount + this.unbookedCost(booked));
    this.#lowMark = Math.min(this.#lowMark, (this.reserved + this.#limit) / 2);
  }

  /**
   * Replaces the limit and the balance by those of a renewed lease.
   * @param lease what this process holds, and of what balance
   * @param booked ended calls that this balance includes
   * @param later ended calls that it may include, because they were booked at the same time
   */
  applyLease(lease: AllowanceLease, booked: readonly string[], later: readonly string[] = []): void {
    const { amount: limit, balance } = lease;
    this.#unbookedSum -= this.unbookedCost(booked);
    for (const id of booked) this.#unbooked.delete(id);
    this.#limit = limit;
    this.#left = balance - (this.#unbookedSum - this.unbookedCost(later));
    this.#lowMark = (this.reserved + limit) / 2;
  }
}
