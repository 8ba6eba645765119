/** Calls of one key that were refused. */
export interface RefusedCalls {
  readonly userId: string;
  readonly apiKeyId: string | null;
  /** The limit: requests or tokens in the limiter's own period. */
  readonly limit: number;
  readonly count: number;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** One key's refused calls in one window, as this process has counted them. */
export interface RefusedCallCount {
  readonly id: string;
  readonly key: Omit<RefusedCalls, 'count' | 'at'>;
  /** When the window begins. Milliseconds since 1970. */
  readonly start: number;
  count: number;
  /** How much of the count is in the database. */
  writtenCount: number;
}

/** The refused calls that this process has counted, by key and window. */
export class RefusedCallCounts {
  readonly #window: number;
  #counts = new Map<string, RefusedCallCount>();

  /** @param window milliseconds */
  constructor(window: number) {
    this.#window = window;
  }

  /** Calls that are reported late count in the window before, which may still be open. */
  add({ count, at, ...key }: RefusedCalls): void {
    const now = Date.now();
    this.#addTo(this.#startOf(Math.min(now, Math.max(at, this.#startOf(now) - this.#window))), key, count);
  }

  unwritten(): RefusedCallCount[] {
    return [...this.#counts.values()].filter(({ count, writtenCount }) => count > writtenCount);
  }

  delete({ id }: RefusedCallCount): void {
    this.#counts.delete(id);
  }

  /**
   * Moves what is not written to the next window that can still be open: this one was closed before its last counts were written.
   * @param writtenCount how much of the count is in the database
   */
  carryOver(closed: RefusedCallCount, writtenCount: number): void {
    this.delete(closed);
    const missing = closed.count - writtenCount;
    const next = Math.max(this.#startOf(Date.now()), closed.start + this.#window);
    if (missing > 0) this.#addTo(next, closed.key, missing);
  }

  /** Forgets what is written of windows that are over. */
  forgetPast(): void {
    const oldest = Date.now() - 2 * this.#window;
    for (const entry of this.#counts.values()) {
      if (entry.count <= entry.writtenCount && entry.start <= oldest) this.delete(entry);
    }
  }

  #startOf(at: number): number {
    return Math.floor(at / this.#window) * this.#window;
  }

  #addTo(start: number, key: RefusedCallCount['key'], count: number): void {
    const id = JSON.stringify([start, key.userId, key.apiKeyId]);
    const present = this.#counts.get(id);
    if (present) present.count += count;
    else this.#counts.set(id, { id, key, start, count, writtenCount: 0 });
  }
}
