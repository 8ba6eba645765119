import type { ServerResponse } from 'node:http';
import { GatewayError } from '../../errors.ts';

function shuttingDown(): GatewayError {
  return new GatewayError('shutting_down', 'The gateway is shutting down; send the request again', {
    headers: { 'retry-after': '1', connection: 'close' },
  });
}

/** The requests in progress, so that a gateway that closes can wait for them. */
export class OpenRequests {
  readonly #open = new Set<ServerResponse>();
  readonly #bodies = new Set<(error: GatewayError) => void>();
  #closing = false;
  #takesBodies = true;
  #onLast: (() => void) | undefined;

  /**
   * Counts a request until its answer is sent or its client disconnects.
   * @throws GatewayError `shutting_down` once {@link drain} was called
   */
  add(res: ServerResponse): void {
    if (this.#closing) throw shuttingDown();
    if (res.destroyed) return;
    this.#open.add(res);
    res.on('close', () => {
      this.#open.delete(res);
      if (this.#open.size === 0) this.#onLast?.();
    });
  }

  /** Calls `refuse` when {@link refuseBodies} is called, or at once if it was called before; not after {@link bodyEnded}. */
  bodyBegun(refuse: (error: GatewayError) => void): void {
    if (this.#takesBodies) this.#bodies.add(refuse);
    else refuse(shuttingDown());
  }

  bodyEnded(refuse: (error: GatewayError) => void): void {
    this.#bodies.delete(refuse);
  }

  /** Stops waiting for bodies: requests whose bodies have not arrived are answered 503 `shutting_down`. */
  refuseBodies(): void {
    this.#takesBodies = false;
    for (const refuse of this.#bodies) refuse(shuttingDown());
  }

  /**
   * Refuses new requests from now on. Resolves when the last answer ends, or after `maxWait` milliseconds. Answers that
   * have not begun close their connections.
   */
  drain(maxWait: number): Promise<void> {
    this.#closing = true;
    for (const res of this.#open) {
      if (!res.headersSent) res.setHeader('connection', 'close');
    }
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, maxWait);
      this.#onLast = () => {
        clearTimeout(timer);
        resolve();
      };
      if (this.#open.size === 0) this.#onLast();
    });
  }
}
