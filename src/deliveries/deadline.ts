import { outboundError } from '../outbound/classify.ts';
import type { Abortable } from '../outbound/exchange.ts';

/** The end of one attempt's time. An AbortSignal with a timer of its own costs more than the rest of what is done for a POST. */
export class Deadline implements Abortable {
  aborted = false;
  reason: unknown = undefined;
  #listener: (() => void) | undefined;
  readonly #timer: NodeJS.Timeout;

  /** @param time milliseconds */
  constructor(time: number) {
    this.#timer = setTimeout(this.#end, time);
  }

  /** Nobody has to be told any more. */
  clear(): void {
    clearTimeout(this.#timer);
  }

  /** One listens at a time: the request that is being made. */
  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listener = listener;
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    if (this.#listener === listener) this.#listener = undefined;
  }

  #end = (): void => {
    this.aborted = true;
    this.reason = outboundError('timeout');
    this.#listener?.();
  };
}
