import type { Duplex } from 'node:stream';
import { WebSocket } from 'ws';
import { type GatewayError, isGatewayError } from '../errors.ts';
import type { MemoryReservation } from '../fairness/account-shares.ts';

/** What a chunk of a connection takes beside its bytes, measured on Node 20: one that sends single bytes would hold 700 times what it sends. Bytes. */
const chunkCost = 768;

/** The length of a control frame without its data: its head, and what masks a client's data (RFC 6455, section 5.2). Bytes. */
const controlHead = { client: 6, server: 2 } as const;

/**
 * A WebSocket that knows how many bytes it holds. `ws` tells of whole messages alone, and collects the rest of one unseen: so what has come since the last
 * one is counted. That is at most the chunk too little, of 64 KiB, in which a message ends and the next begins.
 */
export class CountedSocket extends WebSocket {
  /** Called when more has come, before `ws` reads it. */
  onBytes: () => void = () => {};
  /** Called when all that waited for the other side has been written. */
  onDrain: () => void = () => {};
  #connection: Duplex | undefined;
  #unfinished = 0;
  /** What the chunk that is being read has beside control frames. Bytes. */
  #rest = 0;

  /** To be called once, before it reads anything. @param connection what it reads from @param sender whose messages it reads */
  count(connection: Duplex, sender: 'client' | 'server'): void {
    this.#connection = connection;
    // before `ws` reads it; and `on` would let a connection flow
    connection.prependListener('data', (chunk: Buffer) => {
      this.#unfinished += chunk.length + chunkCost;
      this.#rest = chunk.length;
      this.onBytes();
    });
    connection.on('drain', () => this.onDrain());
    this.on('message', () => {
      this.#unfinished = 0;
    });
    const onControl = (data: Buffer): void => {
      const length = data.length + controlHead[sender];
      this.#rest -= length;
      // what only asks whether the other side is there must not add up while no message comes
      this.#unfinished = Math.max(0, this.#unfinished - length - (this.#rest === 0 ? chunkCost : 0));
    };
    this.on('ping', onControl);
    this.on('pong', onControl);
  }

  /** What it holds of a message that has not come whole, and what waits for the other side to read. Bytes. */
  get held(): number {
    return this.readyState === WebSocket.CLOSED ? 0 : this.#unfinished + this.bufferedAmount;
  }

  /**
   * Drops what still comes, once it is closed: `ws` would go on collecting the message that is not whole. The other side can end that message, so that it
   * reads the close frame behind what it has been sent; with a connection that is cut at once it would not.
   */
  drop(): void {
    this.#connection?.removeAllListeners('data').resume();
    // the answer to the close frame is dropped too
    this.#connection?.end();
  }
}

/** An open WebSocket may hold this much before it takes a part of its account's memory, so that short messages need not ask for one. Bytes. */
const uncounted = 64 * 1024;

/** What both sides of a bridge hold, and the messages between them, as a part of what their account may hold. */
export class SocketMemory {
  readonly #reservation: MemoryReservation;
  readonly #onFull: (socket: CountedSocket, error: GatewayError) => void;
  readonly #sockets = new Set<CountedSocket>();
  #waiting = 0;

  /** @param onFull called where there is no room for what comes on a socket, with the reason */
  constructor(reservation: MemoryReservation, onFull: (socket: CountedSocket, error: GatewayError) => void) {
    this.#reservation = reservation;
    this.#onFull = onFull;
  }

  /** Counts what a socket holds, until it is closed. */
  add(socket: CountedSocket): void {
    this.#sockets.add(socket);
    socket.onBytes = () => this.grow(socket);
    socket.onDrain = () => this.shrink();
    socket.on('close', () => {
      this.#sockets.delete(socket);
      this.shrink();
    });
  }

  /** Counts whole messages that have not been passed on yet. @param bytes so many more, or fewer */
  wait(bytes: number): void {
    this.#waiting += bytes;
  }

  /** Takes what is held by now. @param socket on which more has come */
  grow(socket: CountedSocket): void {
    try {
      this.#reservation.resize(this.#counted);
    } catch (error) {
      if (!isGatewayError(error)) throw error;
      this.#onFull(socket, error);
    }
  }

  /** Gives back what is not held any more. */
  shrink(): void {
    const { bytes } = this.#reservation;
    if (bytes > 0) this.#reservation.resize(Math.min(bytes, this.#counted));
  }

  release(): void {
    this.#reservation.release();
  }

  get #counted(): number {
    let held = this.#waiting;
    for (const socket of this.#sockets) held += socket.held;
    return held > uncounted ? held : 0;
  }
}
