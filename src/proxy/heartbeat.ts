import type { ServerResponse } from 'node:http';

/** Every client passes over it: a comment of server-sent events (WHATWG HTML, 9.2.6), which is no part of an event. */
const comment = ': heartbeat\n\n';
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

/** What the client of a stream has got so far. */
interface SentEvents {
  /** Whether what was sent ends inside an event. */
  readonly insideEvent: boolean;
}

/**
 * Sends comments while a stream of events has nothing else to send, so that nothing on the way to the client takes the connection for dead. It counts
 * from the head of the answer, and from each byte that is sent. Its one timer is left alone when something is sent: when it fires, it looks how long that is ago.
 */
export class Heartbeat {
  readonly #res: ServerResponse;
  readonly #events: SentEvents;
  readonly #interval: number;
  #lastSentAt = performance.now();
  #timer: NodeJS.Timeout;
  #hasBegun = false;
  #hasSentComment = false;

  /**
   * @param res its head is written
   * @param interval milliseconds
   */
  constructor(res: ServerResponse, events: SentEvents, interval: number) {
    this.#res = res;
    this.#events = events;
    this.#interval = interval;
    this.#timer = setTimeout(this.#onTimer, interval);
  }

  /** Notes that these parts of the stream are sent next. @returns what to send of them */
  sending(parts: readonly Buffer[]): readonly Buffer[] {
    const [first] = parts;
    if (!first) return parts;
    this.#lastSentAt = performance.now();
    const isBeginning = !this.#hasBegun;
    this.#hasBegun = true;
    // behind a comment it would belong to the name of the first field, and clients would pass over the first event
    const isMarked = isBeginning && this.#hasSentComment && first.subarray(0, 3).equals(byteOrderMark);
    return isMarked ? [first.subarray(3), ...parts.slice(1)] : parts;
  }

  stop(): void {
    clearTimeout(this.#timer);
  }

  #onTimer = (): void => {
    const { destroyed, writableEnded, writableNeedDrain } = this.#res;
    if (destroyed || writableEnded) return;
    const silence = performance.now() - this.#lastSentAt;
    if (silence < this.#interval) {
      this.#schedule(this.#interval - silence);
      return;
    }
    // a client that reads slowly has something to read
    if (!writableNeedDrain && !this.#events.insideEvent) {
      this.#res.write(comment);
      this.#hasSentComment = true;
    }
    this.#lastSentAt = performance.now();
    this.#schedule(this.#interval);
  };

  #schedule(delay: number): void {
    this.#timer = setTimeout(this.#onTimer, Math.ceil(delay));
  }
}
