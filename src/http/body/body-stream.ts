import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { type Duplex, Readable } from 'node:stream';
import { GatewayError } from '../../errors.ts';
import { announcedLength, sendBeforeBody } from '../request.ts';
import { type BodyLimits, checkSize, encodingOf } from './read-body.ts';

/** Connections on which a body goes up as it comes. */
const streaming = new WeakSet<Duplex>();

/** Whether a body goes up as it comes on a connection: it may take longer than other bodies, and has time limits of its own. */
export function isStreamingBody(socket: Duplex): boolean {
  return streaming.has(socket);
}

/**
 * The body of a request that goes on as it comes. It holds a few chunks, and takes no more from the client than its reader takes. A reader
 * that stops leaves the connection open, so that the client gets an answer.
 */
export class BodyStream extends Readable {
  /** As it was announced; `undefined` where the client does not say. Bytes. */
  readonly length: number | undefined;
  /** Why it has ended early, if it was not its reader who ended it. */
  failure: Error | undefined;
  /** Called when it waits for the client, or no longer, because its reader has to take what has come, or has all of it. */
  onTurn: (isClients: boolean) => void = () => {};
  readonly #req: IncomingMessage;
  readonly #limits: BodyLimits;
  /** What has come of it. Bytes. */
  received = 0;
  #pieces = 0;
  #isReading = false;
  #timer: NodeJS.Timeout | undefined;

  /**
   * @param limits the time is that between two chunks
   * @throws GatewayError `request_too_large`, by its announced length; `unsupported_media_type` where it is compressed. Ends with
   * `request_too_large` or `request_timeout` as its {@link failure}, or when the client leaves
   */
  constructor(req: IncomingMessage, headers: IncomingHttpHeaders, limits: BodyLimits) {
    // less than a chunk: one may wait while its reader does, and is still in the processor's caches when it goes on
    super({ highWaterMark: 16 * 1024 });
    if (encodingOf(headers) !== 'identity') {
      throw new GatewayError('unsupported_media_type', 'A file must be sent without Content-Encoding');
    }
    const length = announcedLength(headers);
    this.length = Number.isFinite(length) ? length : undefined;
    if (this.length !== undefined) checkSize(this.length, limits);
    this.#req = req;
    this.#limits = limits;
    // whoever reads it may have left when it fails
    this.on('error', () => {});
    streaming.add(req.socket);
    req.on('end', this.#onEnd);
    req.on('close', this.#onClose);
  }

  override _read(): void {
    this.#wait();
    this.onTurn(true);
    // not before: to listen is what accepts a body of `Expect: 100-continue`
    if (!this.#isReading) this.#req.on('data', this.#onChunk);
    this.#isReading = true;
    this.#req.resume();
  }

  /** Whether it waits for the client. */
  get isClientsTurn(): boolean {
    return this.#isReading && !this.#req.isPaused() && !this.#req.complete;
  }

  /** Whether the client has sent all of it. */
  get isWhole(): boolean {
    return this.#req.complete;
  }

  /** Sends the whole body of an answer before all of this has come: a client that writes before it reads gets it, too. Drops what is still to come. */
  answerEarly(res: ServerResponse, body: Buffer): void {
    this.destroy();
    sendBeforeBody(this.#req, res, body);
  }

  override _destroy(error: Error | null, callback: (error: Error | null) => void): void {
    this.#stop();
    callback(error);
  }

  #wait(): void {
    if (this.#timer) this.#timer.refresh();
    else {
      this.#timer = setTimeout(() => {
        this.#fail(new GatewayError('request_timeout', 'The next part of the file did not arrive in time'));
      }, this.#limits.time);
    }
  }

  #stopWaiting(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #onChunk = (chunk: Buffer): void => {
    this.received += chunk.length;
    this.#pieces += 1;
    try {
      checkSize(this.received, this.#limits, this.#pieces);
    } catch (error) {
      this.#fail(error as Error);
      return;
    }
    if (this.push(chunk)) this.#wait();
    else {
      this.#stopWaiting();
      this.#req.pause();
      this.onTurn(false);
    }
  };

  #onEnd = (): void => {
    this.#stop();
    this.push(null);
    this.onTurn(false);
  };

  #onClose = (): void => {
    // what had come and was not taken yet is gone with the connection
    if (!this.#req.readableEnded) this.#fail(new Error('the client left in the middle of the body'));
  };

  #fail(error: Error): void {
    this.failure ??= error;
    this.destroy(error);
  }

  #stop(): void {
    this.#stopWaiting();
    streaming.delete(this.#req.socket);
    this.#req.off('data', this.#onChunk);
    this.#req.off('end', this.#onEnd);
    this.#req.off('close', this.#onClose);
  }
}
