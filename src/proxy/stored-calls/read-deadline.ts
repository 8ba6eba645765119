import type { CallDeadline, Deadline } from '../call-deadline.ts';

/** Ends one of several reads of a call: at its own time limit, or with the call. */
export class ReadDeadline implements Deadline {
  aborted = false;
  reason: unknown;
  readonly #call: CallDeadline;
  readonly #listeners = new Set<() => void>();
  #timer: NodeJS.Timeout | undefined;

  constructor(call: CallDeadline) {
    this.#call = call;
    if (call.aborted) this.#abort(call.reason);
    else call.addEventListener('abort', this.#onCallAborted);
  }

  get isOver(): boolean {
    return this.aborted || this.#call.isOver;
  }

  addEventListener(_type: string, listener: () => void): void {
    this.#listeners.add(listener);
  }

  removeEventListener(_type: string, listener: () => void): void {
    this.#listeners.delete(listener);
  }

  /** Requires that the read is over, or the deadline armed again, within this many milliseconds. */
  arm(limit: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#abort(new DOMException('the upstream took too long', 'TimeoutError')), limit);
  }

  /** The read is over. */
  release(): void {
    clearTimeout(this.#timer);
    this.#call.removeEventListener('abort', this.#onCallAborted);
  }

  #onCallAborted = (): void => this.#abort(this.#call.reason);

  #abort(reason: unknown): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    for (const listener of [...this.#listeners]) listener();
  }
}
