/** Questions of one process under way at once. */
const concurrency = 32;

/** The responses that this process asks about, a few at once, and other work that closing waits for. */
export class Questions {
  readonly #answer: (id: string) => Promise<void>;
  readonly #waiting = new Set<string>();
  readonly #asked = new Set<string>();
  readonly #running = new Set<Promise<void>>();
  #isOpen = true;

  /** @param answer asks about one response; must not reject */
  constructor(answer: (id: string) => Promise<void>) {
    this.#answer = answer;
  }

  /** Asks about a response as soon as there is a place; after the question about it that is under way. */
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

  /** Starts no more questions; those under way go on. */
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
      if (this.#asked.size >= concurrency) return;
      if (this.#asked.has(id)) continue;
      this.#waiting.delete(id);
      this.#asked.add(id);
      this.track(this.#ask(id));
    }
  }

  async #ask(id: string): Promise<void> {
    await this.#answer(id);
    this.#asked.delete(id);
    this.#startNext();
  }
}
