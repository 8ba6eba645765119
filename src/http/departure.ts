import type { ServerResponse } from 'node:http';

/**
 * Whether the client has left before its answer was complete. Relayed calls listen to this itself: an AbortSignal costs
 * more than most of what is done for a call, so there is one only for those who ask for it.
 */
export class Departure {
  /** Whether the client has left. */
  hasLeft = false;
  #listener: (() => void) | undefined;
  #controller: AbortController | undefined;

  constructor(res: ServerResponse) {
    this.hasLeft = res.destroyed;
    res.on('close', () => {
      if (!res.writableFinished) this.#leave();
    });
  }

  /** Has one listener told when the client leaves, at once if it has left; `undefined` for nobody. */
  tell(listener: (() => void) | undefined): void {
    if (this.hasLeft) listener?.();
    else this.#listener = listener;
  }

  /** Aborts when the client leaves. */
  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.hasLeft) this.#abort();
    }
    return this.#controller.signal;
  }

  #leave(): void {
    this.hasLeft = true;
    this.#abort();
    this.#listener?.();
  }

  #abort(): void {
    this.#controller?.abort(new Error('the client left'));
  }
}
