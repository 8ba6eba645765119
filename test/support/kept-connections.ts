import type { Socket } from 'node:net';
import type { RecordedRequest, Script } from './upstream.ts';

/** How the other side ends a kept connection. */
export const ends = {
  'is reset': (socket: Socket) => void socket.resetAndDestroy(),
  ends: (socket: Socket) => void socket.destroy(),
} as const;

/** The end of a connection. */
export type End = (typeof ends)[keyof typeof ends];

/** An upstream that serves each request by a script, and loses its kept connections when a test says so. */
export class KeptConnections {
  /** Those that have served a request. */
  readonly #kept = new Set<Socket>();
  /** The requests that were served. */
  readonly served: RecordedRequest[] = [];
  /** The requests that met the end of their connection. */
  lost = 0;
  /** With what a request on a kept connection is met; on a new one too where `everywhere` says so. */
  #end: End | undefined;
  #everywhere = false;
  #together = 1;
  #ending: Socket[] = [];

  /** Ends all kept connections now. */
  endNow(end: End): void {
    for (const socket of this.#kept) end(socket);
    this.#kept.clear();
  }

  /** From now on ends each connection on which a second request comes, without a byte of an answer; so many of them at a time. */
  endOnReuse(end: End, { everywhere = false, together = 1 } = {}): void {
    this.#end = end;
    this.#everywhere = everywhere;
    this.#together = together;
  }

  script(answer: Script): Script {
    return (res, request) => {
      const { socket } = res;
      if (!socket) return undefined;
      if (this.#end && (this.#everywhere || this.#kept.has(socket))) {
        this.lost += 1;
        this.#kept.delete(socket);
        this.#ending.push(socket);
        if (this.#ending.length < this.#together) return undefined;
        for (const ending of this.#ending.splice(0)) this.#end(ending);
        return undefined;
      }
      this.#kept.add(socket);
      this.served.push(request);
      return answer(res, request);
    };
  }
}
