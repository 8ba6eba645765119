import type { ServerResponse } from 'node:http';
import type { CallEnding } from '../../../options/options.ts';
import type { BodySink } from '../../../outbound/exchange.ts';
import { classify, type OutboundError, outboundError } from '../../../outbound/outbound-error.ts';
import type { CallDeadline } from '../../call-deadline.ts';
import type { RelayedBody } from '../decoded-body.ts';

/** Changes the bytes of a body before they are sent. */
interface Transform {
  /** @returns what can be sent now */
  push(chunk: Buffer): readonly Buffer[];
  /** What is still held when the body has ended. */
  end(): readonly Buffer[];
}

/** Reads the bytes as the upstream sent them. */
export interface ChunkObserver {
  read(chunk: Buffer): void;
}

/** What is done with a body while it is sent. */
export interface StreamHandlers {
  readonly transform?: Transform;
  readonly observer?: ChunkObserver;
  /** Whether a body that ended is complete. @default it is */
  isWhole?(): boolean;
  /** Ends an answer when its body breaks off after its head has been sent. */
  breakOff(res: ServerResponse, error: OutboundError): void;
}

/** Where a body goes. */
export interface TransferTarget {
  readonly res: ServerResponse;
  readonly deadline: CallDeadline;
  /** How long the next chunk may take. Milliseconds. */
  readonly betweenChunks: number;
}

/** One body on its way from an upstream to a client: sends each chunk at once, and reads no faster than the client does. */
class Transfer implements BodySink {
  readonly #body: RelayedBody;
  readonly #res: ServerResponse;
  readonly #deadline: CallDeadline;
  readonly #betweenChunks: number;
  readonly #handlers: StreamHandlers;
  #done!: (ending: CallEnding) => void;
  readonly ending = new Promise<CallEnding>((resolve) => {
    this.#done = resolve;
  });

  constructor(body: RelayedBody, { res, deadline, betweenChunks }: TransferTarget, handlers: StreamHandlers) {
    this.#body = body;
    this.#res = res;
    this.#deadline = deadline;
    this.#betweenChunks = betweenChunks;
    this.#handlers = handlers;
    res.on('drain', this.#onDrain);
    res.on('close', this.#onClose);
    deadline.arm(betweenChunks);
  }

  onChunk(chunk: Buffer): boolean {
    this.#deadline.reset();
    const { transform, observer } = this.#handlers;
    observer?.read(chunk);
    const open = transform ? this.#pass(transform, chunk) : this.#write(chunk);
    // a client that reads slowly is not an upstream that stalls
    if (!open) this.#deadline.disarm();
    return open;
  }

  onEnd(): void {
    // what is held may be what makes it whole
    const rest = this.#handlers.transform?.end() ?? [];
    if (this.#handlers.isWhole?.() === false) {
      this.onError(outboundError('reset'));
      return;
    }
    if (this.#deadline.clientDisconnected) {
      this.#finish('client_left');
      return;
    }
    for (const part of rest) this.#res.write(part);
    this.#res.end();
    this.#finish('complete');
  }

  onError(error: OutboundError): void {
    if (!this.#res.destroyed) this.#handlers.breakOff(this.#res, error);
    this.#finish(this.#deadline.clientDisconnected ? 'client_left' : 'upstream_failed');
  }

  #pass(transform: Transform, chunk: Buffer): boolean {
    let parts: readonly Buffer[];
    try {
      parts = transform.push(chunk);
    } catch (error) {
      this.#body.destroy();
      this.onError(classify(error));
      return false;
    }
    let open = true;
    for (const part of parts) open = this.#write(part);
    return open;
  }

  /** When the client has left, the rest is still read: it may report the usage. */
  #write(bytes: Buffer): boolean {
    return this.#res.destroyed || this.#res.write(bytes);
  }

  #finish(ending: CallEnding): void {
    this.#res.off('drain', this.#onDrain);
    this.#res.off('close', this.#onClose);
    this.#done(ending);
  }

  /**
   * Resumes a paused body without its client: if the call may continue, to its end, otherwise to the end that the abort has
   * begun.
   */
  #onClose = (): void => {
    if (this.#deadline.aborted) this.#body.resume();
    else this.#onDrain();
  };

  #onDrain = (): void => {
    this.#deadline.arm(this.#betweenChunks);
    this.#body.resume();
  };
}

/** Sends a body to a client whose answer's head has been written; resolves to how that ended. */
export function transfer(body: RelayedBody, target: TransferTarget, handlers: StreamHandlers): Promise<CallEnding> {
  const transferring = new Transfer(body, target, handlers);
  body.flowTo(transferring);
  return transferring.ending;
}
