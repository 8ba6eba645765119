/** What this process may let one account spend, and what of it is spoken for. Micro-credits, whole numbers. */
export class Purse {
  /** What may be spoken for at once. */
  #ceiling: number;
  /** Estimates of the calls under way. */
  #held = 0;
  /** What ended calls cost that is not known to be booked, by usage record. */
  readonly #unbooked = new Map<string, number>();
  #unbookedSum = 0;

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

  /** Whether so much is spoken for that more should be set aside. */
  get isRunningLow(): boolean {
    return this.spokenFor * 2 >= this.#ceiling;
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
    this.#unbooked.set(id, cost);
    this.#unbookedSum += cost;
  }

  /** These show in the balance. */
  settle(ids: readonly string[]): void {
    for (const id of ids) {
      this.#unbookedSum -= this.#unbooked.get(id) ?? 0;
      this.#unbooked.delete(id);
    }
  }

  /** What was set aside for this process. */
  allow(ceiling: number): void {
    this.#ceiling = ceiling;
  }
}
