import type { Socket } from 'node:net';

/** Which way bytes go: from the side that connected to the other, or back. */
export type Direction = 'up' | 'down';

/** What the network does with the bytes of one direction now. */
export interface Treatment {
  /** Takes bytes and drops them, for good: what a firewall does that has forgotten a connection. */
  readonly swallows: boolean;
  /** Keeps bytes until it no longer does: what a network does that drops packets, which TCP sends again. */
  readonly holds: boolean;
  /** Milliseconds by which bytes are late. */
  readonly delay: number;
}

interface Parcel {
  /** Absent for the end of the connection. */
  readonly bytes?: Buffer;
  readonly at: number;
}

/**
 * One direction of a connection. Bytes and the close that follows them arrive in order. A direction that has lost bytes stays
 * silent, for its stream has a hole; neither does a close pass a fault, so that the other side is left half-open.
 */
class Passage {
  readonly #from: Socket;
  readonly #to: Socket;
  readonly #treatment: () => Treatment;
  readonly #queue: Parcel[] = [];
  #timer: NodeJS.Timeout | undefined;
  #hasHole = false;

  constructor(from: Socket, to: Socket, treatment: () => Treatment) {
    this.#from = from;
    this.#to = to;
    this.#treatment = treatment;
    from.on('close', () => this.take());
  }

  take(bytes?: Buffer): void {
    if (bytes && this.#treatment().swallows) this.#hasHole = true;
    if (bytes && this.#hasHole) return;
    this.#queue.push({ ...(bytes && { bytes }), at: performance.now() });
    this.passOn();
  }

  /** Hands over what may arrive now, and looks again when more may. */
  passOn(): void {
    clearTimeout(this.#timer);
    const { swallows, holds, delay } = this.#treatment();
    if (swallows || holds) return;
    for (let [next] = this.#queue; next; [next] = this.#queue) {
      const early = next.at + delay - performance.now();
      if (early > 0) {
        this.#timer = setTimeout(() => this.passOn(), early);
        return;
      }
      this.#queue.shift();
      if (next.bytes) this.#to.write(next.bytes);
      else this.#to.destroy();
    }
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#queue.length = 0;
    this.#from.destroy();
  }
}

/** Two sockets that are one connection through a network. */
export class Link {
  readonly #passages: Readonly<Record<Direction, Passage>>;

  /** @param treatment asked whenever bytes arrive, and when the network has changed */
  constructor(client: Socket, server: Socket, treatment: (direction: Direction) => Treatment) {
    for (const socket of [client, server]) {
      socket.setNoDelay(true);
      // a close follows, and says enough
      socket.on('error', () => {});
    }
    this.#passages = {
      up: new Passage(client, server, () => treatment('up')),
      down: new Passage(server, client, () => treatment('down')),
    };
  }

  take(direction: Direction, bytes: Buffer): void {
    this.#passages[direction].take(bytes);
  }

  /** The network has changed. */
  passOn(): void {
    this.#passages.up.passOn();
    this.#passages.down.passOn();
  }

  /** Closes both sides. */
  cut(): void {
    this.#passages.up.stop();
    this.#passages.down.stop();
  }
}
