import type { ServerResponse } from 'node:http';

/** Whether the client disconnects before its answer is complete. `proxy/call-deadline.ts` says what an AbortSignal would cost instead. */
export class ClientDisconnect {
  disconnected = false;
  #listener: (() => void) | undefined;

  constructor(res: ServerResponse) {
    this.disconnected = res.destroyed;
    res.on('close', () => {
      if (res.writableFinished) return;
      this.disconnected = true;
      this.#listener?.();
    });
  }

  /** Calls one listener when the client disconnects, or at once if it already has; `undefined` removes the listener. */
  onDisconnect(listener: (() => void) | undefined): void {
    if (this.disconnected) listener?.();
    else this.#listener = listener;
  }
}
