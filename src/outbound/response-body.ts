import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { OutboundError } from './outbound-error.ts';

/** Receives a response's body; exactly one of `onEnd` and `onError` is called. */
export interface BodySink {
  /** @returns false to stop the flow until {@link ResponseBody.resume} is called */
  onChunk(chunk: Buffer): boolean;
  onEnd(): void;
  onError(error: OutboundError): void;
}

/** What sends the bytes of a body. */
type BodyController = Pick<Dispatcher.DispatchController, 'pause' | 'resume' | 'abort'>;

/** How much waits in memory for a sink before the sender is paused. Bytes. */
const bufferLimit = 64 * 1024;

/**
 * The body of one response. It goes to a sink directly, without a stream, and pauses when the sink is full.
 * Call one of {@link takeWhole}, {@link flowTo} and {@link toReadable}, once; destroy a body that you do not read.
 */
export class ResponseBody {
  readonly #controller: BodyController;
  #sink: BodySink | null = null;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #outcome: 'end' | OutboundError | null = null;
  #destroyed = false;

  constructor(controller: BodyController) {
    this.#controller = controller;
  }

  /** The whole body if all of it has arrived, as short bodies do together with their heads; otherwise `undefined`. */
  takeWhole(): Buffer | undefined {
    if (this.#outcome !== 'end' || this.#sink || this.#destroyed) return undefined;
    this.#destroyed = true;
    const chunks = this.#waiting;
    this.#waiting = [];
    return chunks.length === 1 ? chunks[0] : Buffer.concat(chunks);
  }

  /** Sends everything that has arrived, and that will arrive, to `sink`. */
  flowTo(sink: BodySink): void {
    this.#sink = sink;
    let open = true;
    for (const chunk of this.#waiting) open = sink.onChunk(chunk) && open;
    this.#waiting = [];
    if (this.#outcome !== null) this.#notify(sink, this.#outcome);
    else if (open) this.resume();
    else this.#controller.pause();
  }

  /** Continues after a sink has stopped the flow. */
  resume(): void {
    if (this.#outcome === null) this.#controller.resume();
  }

  /** Drops the rest of the body and the connection. The sink is not called any more. */
  destroy(): void {
    if (this.#destroyed) return;
    this.#destroyed = true;
    this.#waiting = [];
    if (this.#outcome !== null) return;
    this.#controller.abort(new OutboundError('aborted', 'the call was aborted'));
  }

  /** The body as a stream. */
  toReadable(): Readable {
    const readable = new Readable({
      read: () => this.resume(),
      destroy: (error, callback) => {
        this.destroy();
        callback(error);
      },
    });
    this.flowTo({
      onChunk: (chunk) => readable.push(chunk),
      onEnd: () => readable.push(null),
      onError: (error) => readable.destroy(error),
    });
    return readable;
  }

  /** @internal */
  push(chunk: Buffer): void {
    if (this.#destroyed) return;
    if (this.#sink) {
      if (!this.#sink.onChunk(chunk)) this.#controller.pause();
      return;
    }
    this.#waiting.push(chunk);
    this.#waitingBytes += chunk.length;
    if (this.#waitingBytes >= bufferLimit) this.#controller.pause();
  }

  /** @internal */
  settle(outcome: 'end' | OutboundError): void {
    if (this.#outcome !== null) return;
    this.#outcome = outcome;
    if (this.#sink) this.#notify(this.#sink, outcome);
  }

  #notify(sink: BodySink, outcome: 'end' | OutboundError): void {
    if (this.#destroyed) return;
    this.#destroyed = true;
    if (outcome === 'end') sink.onEnd();
    else sink.onError(outcome);
  }
}
