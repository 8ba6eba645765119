/** Polls of one process under way at once. */
const concurrency = 32;

/** The responses that this process polls, a few at once, and other work that closing waits for. */
export class PollQueue {
  readonly #poll: (id: string) => Promise<void>;
  readonly #waiting = new Set<string>();
  readonly #polling = new Set<string>();
  readonly #running = new Set<Promise<void>>();
  #isOpen = true;

  /** @param poll polls one response; must not reject */
  constructor(poll: (id: string) => Promise<void>) {
    this.#poll = poll;
  }

  /** Polls a response as soon as there is a place; after the poll of it that is under way. */
  add(id: string): void {
    if (!this.#isOpen) return;
    this.#waiting.add(id);
    this.#startNext();
  }

  /** @param work never rejects */
  track(work: Promise<void>): void {
    const ended: Promise<void> = work.finally(() => this.#running.delete(ended));
    this.#running.add(ended);
  }

  /** Starts no more polls; those under way go on. */
  close(): void {
    this.#isOpen = false;
    this.#waiting.clear();
  }

  /** Resolves when nothing is under way. */
  async done(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  #startNext(): void {
    for (const id of this.#waiting) {
      if (this.#polling.size >= concurrency) return;
      if (this.#polling.has(id)) continue;
      this.#waiting.delete(id);
      this.#polling.add(id);
      this.track(this.#run(id));
    }
  }

  async #run(id: string): Promise<void> {
    await this.#poll(id);
    this.#polling.delete(id);
    this.#startNext();
  }
}
