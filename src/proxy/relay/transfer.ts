import type { ServerResponse } from 'node:http';
import type { CallEnding } from '../../options/options.ts';
import { classify, outboundError } from '../../outbound/classify.ts';
import type { OutboundError } from '../../outbound/outbound-error.ts';
import type { BodySink, ResponseBody } from '../../outbound/response-body.ts';
import type { CallDeadline } from '../call-deadline.ts';

/** Changes bytes on their way down; gives out what can be sent on. */
export interface Transform {
  push(chunk: Buffer): readonly Buffer[];
  /** What is still held when the body has ended. */
  end(): readonly Buffer[];
}

/** Looks at the bytes as they came. */
export interface ChunkObserver {
  read(chunk: Buffer): void;
}

/** What happens to a body on its way down. */
export interface StreamHandlers {
  readonly transform?: Transform;
  readonly observer?: ChunkObserver;
  /** Whether a body is all there that ended without saying how long it would be. @default it is */
  isWhole?(): boolean;
  /** Ends an answer whose head has been sent and whose body broke off. */
  breakOff(res: ServerResponse, error: OutboundError): void;
}

/** One body on its way from an upstream to a client: every chunk at once, no faster than the client reads. */
class Transfer implements BodySink {
  readonly #body: ResponseBody;
  readonly #res: ServerResponse;
  readonly #deadline: CallDeadline;
  readonly #handlers: StreamHandlers;
  readonly #done: (ending: CallEnding) => void;
  readonly #betweenChunks: number;

  constructor(
    body: ResponseBody,
    res: ServerResponse,
    deadline: CallDeadline,
    betweenChunks: number,
    handlers: StreamHandlers,
    done: (ending: CallEnding) => void,
  ) {
    this.#body = body;
    this.#res = res;
    this.#deadline = deadline;
    this.#handlers = handlers;
    this.#done = done;
    this.#betweenChunks = betweenChunks;
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
    if (this.#handlers.isWhole?.() === false) {
      this.onError(outboundError('reset'));
      return;
    }
    const rest = this.#handlers.transform?.end() ?? [];
    if (this.#deadline.clientLeft) {
      this.#finish('client_left');
      return;
    }
    for (const part of rest) this.#res.write(part);
    this.#res.end();
    this.#finish('complete');
  }

  onError(error: OutboundError): void {
    if (!this.#res.destroyed) this.#handlers.breakOff(this.#res, error);
    this.#finish(this.#deadline.clientLeft ? 'client_left' : 'upstream_failed');
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

  /** What nobody takes any more is read on all the same, for what it says of the usage. */
  #write(bytes: Buffer): boolean {
    return this.#res.destroyed || this.#res.write(bytes);
  }

  #finish(ending: CallEnding): void {
    this.#res.off('drain', this.#onDrain);
    this.#res.off('close', this.#onClose);
    this.#done(ending);
  }

  /** A body that was held back for its client goes on where the call outlives that. */
  #onClose = (): void => {
    if (!this.#deadline.aborted) this.#onDrain();
  };

  #onDrain = (): void => {
    this.#deadline.arm(this.#betweenChunks);
    this.#body.resume();
  };
}

/** Sends a body down; resolves to how that ended. The head must have been written. */
export function transfer(
  body: ResponseBody,
  res: ServerResponse,
  deadline: CallDeadline,
  betweenChunks: number,
  handlers: StreamHandlers,
): Promise<CallEnding> {
  return new Promise((resolve) => {
    body.flowTo(new Transfer(body, res, deadline, betweenChunks, handlers, resolve));
  });
}
