import type { ReservedCredits } from './reservations.ts';

interface EndedCall {
  readonly cost: number;
  readonly endedAt: number;
}

/**
 * What this process may let one account spend, and what of it is reserved. Nothing until it was agreed on with the
 * database. Micro-credits, whole numbers.
 */
export class CreditAllowance {
  /** What may be reserved at once. */
  #limit = 0;
  /** What may be reserved before more should be set aside: half of what was left of the limit. */
  #lowMark = 0;
  /** Reservations of the calls under way. */
  #underWay = 0;
  /** What ended calls cost that is not known to show in the balance, by usage record; in the order they ended. */
  readonly #unbooked = new Map<string, EndedCall>();
  #unbookedSum = 0;
  /** What the account has left at most, with what it has spent here. */
  #left = 0;

  /** What is reserved: for calls under way, and for ended ones that the balance may not show yet. */
  get reserved(): number {
    return this.#underWay + this.#unbookedSum;
  }

  get unbooked(): string[] {
    return [...this.#unbooked.keys()];
  }

  /** Whether a call ended here whose cost is not known to show in the balance. */
  owes(id: string): boolean {
    return this.#unbooked.has(id);
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

  /** Whether so much is reserved that more should be set aside. */
  get isRunningLow(): boolean {
    return this.reserved >= this.#lowMark;
  }

  /** Whether the account has nothing left for certain, whoever may have set aside what of it. */
  get isEmpty(): boolean {
    return this.#left <= 0;
  }

  /** @returns whether there was anything left to begin a call with; its reservation may overdraw that */
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
    this.#unbooked.set(id, { cost, endedAt: performance.now() });
    this.#unbookedSum += cost;
    this.#left -= cost;
  }

  /** What of it these ended calls are. */
  costOf(ids: readonly string[]): number {
    return ids.reduce((sum, id) => sum + (this.#unbooked.get(id)?.cost ?? 0), 0);
  }

  /**
   * Less is about to be set aside than was before: from now on another process may have the rest, whether or not this one
   * hears of it.
   * @param amount what is asked for
   * @param booked ended calls that are left out of it
   */
  lower(amount: number, booked: readonly string[]): void {
    this.#limit = Math.min(this.#limit, amount + this.costOf(booked));
    this.#lowMark = Math.min(this.#lowMark, (this.reserved + this.#limit) / 2);
  }

  /**
   * @param own what was set aside for this process, and of what balance
   * @param booked ended calls that show in that balance
   * @param later those that may, for they were booked at the same time
   */
  allow({ amount: limit, balance }: ReservedCredits, booked: readonly string[], later: readonly string[] = []): void {
    this.#unbookedSum -= this.costOf(booked);
    for (const id of booked) this.#unbooked.delete(id);
    this.#limit = limit;
    this.#left = balance - (this.#unbookedSum - this.costOf(later));
    this.#lowMark = (this.reserved + limit) / 2;
  }
}
