import { outboundError } from '../../outbound/classify.ts';
import type { Abortable } from '../../outbound/exchange.ts';

/**
 * The deadline of one attempt. With an AbortSignal instead, a POST takes 1.25 times the CPU: 13 µs more (10 to 24 in five
 * interleaved rounds).
 */
export class Deadline implements Abortable {
  aborted = false;
  reason: unknown = undefined;
  #listener: (() => void) | undefined;
  readonly #timer: NodeJS.Timeout;
  #immediate: NodeJS.Immediate | undefined;

  /** @param time milliseconds */
  constructor(time: number) {
    this.#timer = setTimeout(this.#afterReading, time);
  }

  /** Cancels the deadline. */
  clear(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
  }

  /** Keeps one listener at a time: the request that is under way. */
  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listener = listener;
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    if (this.#listener === listener) this.#listener = undefined;
  }

  /**
   * A process that was stopped or busy runs its due timers before it reads what has arrived meanwhile: a response in
   * time, or the end of the connection, which it sees one turn of the event loop later.
   */
  #afterReading = (): void => {
    this.#immediate = setImmediate(() => {
      this.#immediate = setImmediate(this.#end);
    });
  };

  #end = (): void => {
    this.aborted = true;
    this.reason = outboundError('timeout');
    this.#listener?.();
  };
}
