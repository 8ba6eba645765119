import type { ServerResponse } from 'node:http';

/** Whether the client has left before its answer was complete. `Cutoff` says what an AbortSignal in its place would cost. */
export class Departure {
  /** Whether the client has left. */
  hasLeft = false;
  #listener: (() => void) | undefined;

  constructor(res: ServerResponse) {
    this.hasLeft = res.destroyed;
    res.on('close', () => {
      if (res.writableFinished) return;
      this.hasLeft = true;
      this.#listener?.();
    });
  }

  /** Has one listener told when the client leaves, at once if it has left; `undefined` for nobody. */
  tell(listener: (() => void) | undefined): void {
    if (this.hasLeft) listener?.();
    else this.#listener = listener;
  }
}
