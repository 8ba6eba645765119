/** The most that a timer can wait. Milliseconds. */
const longest = 2 ** 31 - 1;

type Listener = () => void;

/**
 * What ends a call early: the client leaving, a time limit, the gateway closing. Has the part of AbortSignal that axios
 * and its adapter use, at a fraction of the cost of combining real ones.
 */
export class Cutoff {
  aborted = false;
  reason: unknown;
  #listeners = new Set<Listener>();
  #client: AbortSignal;
  #total: NodeJS.Timeout;
  #progress: NodeJS.Timeout | undefined;

  /** @param total milliseconds for the whole call */
  constructor(client: AbortSignal, total: number) {
    this.#client = client;
    this.#total = setTimeout(this.#onTimeout, Math.min(total, longest));
    if (client.aborted) this.#onClient();
    else client.addEventListener('abort', this.#onClient);
  }

  /** Whether it was the client who ended the call. */
  get clientLeft(): boolean {
    return this.#client.aborted;
  }

  abort(reason: unknown): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    for (const listener of this.#listeners) listener();
  }

  addEventListener(_type: string, listener: Listener): void {
    this.#listeners.add(listener);
  }

  removeEventListener(_type: string, listener: Listener): void {
    this.#listeners.delete(listener);
  }

  /** Something must come within so many milliseconds, from now and again after each {@link progress}. */
  expect(within: number): void {
    clearTimeout(this.#progress);
    this.#progress = setTimeout(this.#onTimeout, Math.min(within, longest));
  }

  progress(): void {
    this.#progress?.refresh();
  }

  /** Nothing is expected for now; only the total limit runs on. */
  rest(): void {
    clearTimeout(this.#progress);
    this.#progress = undefined;
  }

  /** The call is over. */
  release(): void {
    clearTimeout(this.#total);
    clearTimeout(this.#progress);
    this.#client.removeEventListener('abort', this.#onClient);
    this.#listeners.clear();
  }

  #onTimeout = (): void => this.abort(new DOMException('the upstream took too long', 'TimeoutError'));
  #onClient = (): void => this.abort(new DOMException('the client left', 'AbortError'));
}

/** Waits, unless the call is cut off first; then resolves early. */
export function pause(milliseconds: number, cutoff: Cutoff): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      cutoff.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    if (cutoff.aborted) done();
    else cutoff.addEventListener('abort', done);
  });
}
