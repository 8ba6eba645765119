import type { ServerResponse } from 'node:http';
import type { CallEnding } from '../../options/options.ts';
import { classify, outboundError } from '../../outbound/classify.ts';
import type { OutboundError } from '../../outbound/outbound-error.ts';
import type { BodySink, ResponseBody } from '../../outbound/response-body.ts';
import type { Cutoff } from '../call-deadline.ts';

/** Changes bytes on their way down; gives out what can be sent on. */
export interface Stage {
  push(chunk: Buffer): readonly Buffer[];
  /** What is still held when the body has ended. */
  end(): readonly Buffer[];
}

/** Looks at the bytes as they came. */
export interface Tap {
  read(chunk: Buffer): void;
}

/** What happens to a body on its way down. */
export interface Course {
  readonly stage?: Stage;
  readonly tap?: Tap;
  /** Whether a body is all there that ended without saying how long it would be. @default it is */
  isWhole?(): boolean;
  /** Ends an answer whose head has been sent and whose body broke off. */
  breakOff(res: ServerResponse, error: OutboundError): void;
}

/** One body on its way from an upstream to a client: every chunk at once, no faster than the client reads. */
class Transfer implements BodySink {
  readonly #body: ResponseBody;
  readonly #res: ServerResponse;
  readonly #cutoff: Cutoff;
  readonly #course: Course;
  readonly #done: (ending: CallEnding) => void;
  readonly #betweenChunks: number;

  constructor(
    body: ResponseBody,
    res: ServerResponse,
    cutoff: Cutoff,
    betweenChunks: number,
    course: Course,
    done: (ending: CallEnding) => void,
  ) {
    this.#body = body;
    this.#res = res;
    this.#cutoff = cutoff;
    this.#course = course;
    this.#done = done;
    this.#betweenChunks = betweenChunks;
    res.on('drain', this.#onDrain);
    res.on('close', this.#onClose);
    cutoff.expect(betweenChunks);
  }

  onChunk(chunk: Buffer): boolean {
    this.#cutoff.progress();
    const { stage, tap } = this.#course;
    tap?.read(chunk);
    const open = stage ? this.#pass(stage, chunk) : this.#write(chunk);
    // a client that reads slowly is not an upstream that stalls
    if (!open) this.#cutoff.rest();
    return open;
  }

  onEnd(): void {
    if (this.#course.isWhole?.() === false) {
      this.onError(outboundError('reset'));
      return;
    }
    const rest = this.#course.stage?.end() ?? [];
    if (this.#cutoff.clientLeft) {
      this.#finish('client_left');
      return;
    }
    for (const part of rest) this.#res.write(part);
    this.#res.end();
    this.#finish('complete');
  }

  onError(error: OutboundError): void {
    if (!this.#res.destroyed) this.#course.breakOff(this.#res, error);
    this.#finish(this.#cutoff.clientLeft ? 'client_left' : 'upstream_failed');
  }

  #pass(stage: Stage, chunk: Buffer): boolean {
    let parts: readonly Buffer[];
    try {
      parts = stage.push(chunk);
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
    if (!this.#cutoff.aborted) this.#onDrain();
  };

  #onDrain = (): void => {
    this.#cutoff.expect(this.#betweenChunks);
    this.#body.resume();
  };
}

/** Sends a body down; resolves to how that ended. The head must have been written. */
export function transfer(
  body: ResponseBody,
  res: ServerResponse,
  cutoff: Cutoff,
  betweenChunks: number,
  course: Course,
): Promise<CallEnding> {
  return new Promise((resolve) => {
    body.flowTo(new Transfer(body, res, cutoff, betweenChunks, course, resolve));
  });
}
