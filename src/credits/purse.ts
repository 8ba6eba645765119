import type { SetAsideOf } from './slices.ts';

interface Spent {
  readonly cost: number;
  readonly endedAt: number;
}

/** What this process may let one account spend, and what of it is spoken for. Micro-credits, whole numbers. */
export class Purse {
  /** What may be spoken for at once. */
  #ceiling: number;
  /** What may be spoken for before more should be set aside: half of what was left of the ceiling. */
  #mark = 0;
  /** Estimates of the calls under way. */
  #held = 0;
  /** What ended calls cost that is not known to show in the balance, by usage record; in the order they ended. */
  readonly #unbooked = new Map<string, Spent>();
  #unbookedSum = 0;
  /** What the account has left at most, with what it has spent here; unknown until it was agreed on. */
  #left = Number.POSITIVE_INFINITY;

  /** @param credit what may be spent before it is known what there is */
  constructor(credit: number) {
    this.#ceiling = credit;
  }

  /** What is spoken for: calls under way, and ended ones that the balance may not show yet. */
  get spokenFor(): number {
    return this.#held + this.#unbookedSum;
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

  /** Whether so much is spoken for that more should be set aside. */
  get isRunningLow(): boolean {
    return this.spokenFor >= this.#mark;
  }

  /** Whether the account has nothing left for certain, whoever may have set aside what of it. */
  get isEmpty(): boolean {
    return this.#left <= 0;
  }

  /** @returns whether there was anything left to begin a call with; its estimate may overdraw that */
  hold(estimate: number): boolean {
    if (this.spokenFor >= this.#ceiling) return false;
    this.#held += estimate;
    return true;
  }

  /** A call ended without cost. */
  release(estimate: number): void {
    this.#held -= estimate;
  }

  /** A call ended and cost this much. */
  spend(estimate: number, id: string, cost: number): void {
    this.#held -= estimate;
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
   * @param own what was set aside for this process, and of what balance
   * @param booked ended calls that show in that balance
   * @param later those that may, for they were booked at the same time
   */
  allow({ amount: ceiling, balance }: SetAsideOf, booked: readonly string[], later: readonly string[] = []): void {
    this.#unbookedSum -= this.costOf(booked);
    for (const id of booked) this.#unbooked.delete(id);
    this.#ceiling = ceiling;
    this.#left = balance - (this.#unbookedSum - this.costOf(later));
    this.#mark = (this.spokenFor + ceiling) / 2;
  }
}
