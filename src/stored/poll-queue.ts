import { dynamicThreshold } from '../fairness/account-shares.ts';
import { PendingWork } from '../pending-work.ts';

/** Polls of one process under way at once. */
const concurrency = 32;

/** A response that is polled, and its account. */
export interface PollRef {
  readonly id: string;
  readonly userId: string;
}

/**
 * The responses that this process polls, a few at once. An account may have half of the
 * polls that the others leave free, and the account with the fewest is next: many responses of one, whose upstream hangs, do not
 * delay those of another.
 */
export class PollQueue {
  readonly #poll: (id: string) => Promise<void>;
  /** The ids that wait, by account; the account that has waited longest is first. */
  readonly #waiting = new Map<string, Set<string>>();
  /** The ids of those that are polled, and their accounts. */
  readonly #polling = new Map<string, string>();
  /** What closing waits for. */
  readonly underWay = new PendingWork();
  #isOpen = true;

  /** @param poll polls one response; must not reject */
  constructor(poll: (id: string) => Promise<void>) {
    this.#poll = poll;
  }

  /** Polls a response as soon as there is a place; after the poll of it that is under way. */
  add({ id, userId }: PollRef): void {
    if (!this.#isOpen) return;
    const ids = this.#waiting.get(userId) ?? new Set();
    this.#waiting.set(userId, ids.add(id));
    this.#startAll();
  }

  /** Starts no more polls; those under way continue. */
  close(): void {
    this.#isOpen = false;
    this.#waiting.clear();
  }

  /** Resolves when nothing is under way. */
  done(): Promise<void> {
    return this.underWay.done();
  }

  #startAll(): void {
    for (let next = this.#next(); next; next = this.#next()) this.#start(next);
  }

  /** The next response of the account with the fewest polls under way. */
  #next(): PollRef | undefined {
    const remaining = concurrency - this.#polling.size;
    if (remaining === 0) return undefined;
    let next: PollRef | undefined;
    let fewest = Number.POSITIVE_INFINITY;
    for (const [userId, ids] of this.#waiting) {
      const polls = [...this.#polling.values()].filter((account) => account === userId).length;
      if (polls >= fewest || polls >= dynamicThreshold(remaining + polls, 1, 2)) continue;
      const id = [...ids].find((waiting) => !this.#polling.has(waiting));
      if (id === undefined) continue;
      next = { id, userId };
      fewest = polls;
      if (fewest === 0) break;
    }
    return next;
  }

  #start({ id, userId }: PollRef): void {
    const ids = this.#waiting.get(userId) as Set<string>;
    ids.delete(id);
    this.#waiting.delete(userId);
    // behind the other accounts
    if (ids.size > 0) this.#waiting.set(userId, ids);
    this.#polling.set(id, userId);
    const polled = this.#poll(id).then(() => {
      this.#polling.delete(id);
      this.#startAll();
    });
    this.underWay.add(polled);
  }
}
