import type { ServerResponse } from 'node:http';
import type { CallEnding } from '../options/options.ts';
import type { BodySink } from '../outbound/exchange.ts';
import { classify, type OutboundError, outboundError } from '../outbound/outbound-error.ts';
import type { DecodedResponse, RelayedBody } from './answer-body.ts';
import type { CallDeadline } from './call-deadline.ts';
import type { Endpoint } from './endpoint.ts';
import { setResponseHeaders } from './headers.ts';
import type { UsageMeter } from './usage-meter.ts';

/** One response, and how it is sent to the client. */
export interface ResponsePlan {
  readonly response: DecodedResponse;
  /** The name of the upstream, if the answer shows it. */
  readonly shownUpstream: string | undefined;
  readonly res: ServerResponse;
  readonly deadline: CallDeadline;
  readonly betweenChunks: number;
  readonly meter: UsageMeter;
  /** What a successful answer is, if not always JSON. */
  readonly answers?: Endpoint['answers'] | undefined;
  /** Whether the client asked for a stream. */
  readonly asksForStream: boolean;
  /** Whether a whole stream ends in `[DONE]`. */
  readonly endsInDone: boolean;
  /**
   * Whether its streams are those of the Responses API: of a response that ends with its stream, of one that is made in the background, or of
   * such a one again, from some event on. @default they are not
   */
  readonly responseStream?: 'whole' | 'background' | 'resumed' | undefined;
  /** Whether the usage chunk at a stream's end is removed, because the client did not ask for it. */
  readonly dropsUsageChunk: boolean;
  /** Whether a whole body may still turn out to be an error: its beginning did not say in time. @default it may not */
  readonly looksForError?: boolean | undefined;
  /** Whether vectors of numbers become base64. */
  readonly repairsVectors: boolean;
}

/** Writes the head of the answer. */
export function writeHead({ response, res, shownUpstream }: ResponsePlan, length?: number | string): void {
  setResponseHeaders(res, response.headers);
  if (shownUpstream !== undefined) res.setHeader('x-gateway-upstream', shownUpstream);
  if (length !== undefined) res.setHeader('content-length', length);
  res.writeHead(response.status);
}

/** Changes the bytes of a body before they are sent. */
interface Transform {
  /** @returns what can be sent now */
  push(chunk: Buffer): readonly Buffer[];
  /** What is still held when the body has ended. */
  end(): readonly Buffer[];
}

/** Reads the bytes as the upstream sent them. */
interface ChunkObserver {
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

/** Sends the body of a response whose head has been written; resolves to how that ended. */
export function transfer(plan: ResponsePlan, handlers: StreamHandlers): Promise<CallEnding> {
  const transferring = new Transfer(plan, handlers);
  plan.response.data.flowTo(transferring);
  return transferring.ending;
}

/** One body on its way from an upstream to a client: sends each chunk at once, and reads no faster than the client does. */
class Transfer implements BodySink {
  readonly #body: RelayedBody;
  readonly #plan: ResponsePlan;
  readonly #handlers: StreamHandlers;
  #done!: (ending: CallEnding) => void;
  readonly ending = new Promise<CallEnding>((resolve) => {
    this.#done = resolve;
  });

  constructor(plan: ResponsePlan, handlers: StreamHandlers) {
    this.#body = plan.response.data;
    this.#plan = plan;
    this.#handlers = handlers;
    plan.res.on('drain', this.#onDrain);
    plan.res.on('close', this.#onClose);
    plan.deadline.arm(plan.betweenChunks);
  }

  onChunk(chunk: Buffer): boolean {
    const { deadline } = this.#plan;
    deadline.reset();
    const { transform, observer } = this.#handlers;
    observer?.read(chunk);
    const open = transform ? this.#pass(transform, chunk) : this.#write(chunk);
    // a client that reads slowly is not an upstream that stalls
    if (!open) deadline.disarm();
    return open;
  }

  onEnd(): void {
    const { res, deadline } = this.#plan;
    // what is held may be what makes it whole
    const rest = this.#handlers.transform?.end() ?? [];
    if (this.#handlers.isWhole?.() === false) {
      this.onError(outboundError('reset'));
      return;
    }
    if (deadline.clientDisconnected) {
      this.#finish('client_left');
      return;
    }
    for (const part of rest) res.write(part);
    res.end();
    this.#finish('complete');
  }

  onError(error: OutboundError): void {
    const { res, deadline } = this.#plan;
    if (!res.destroyed) this.#handlers.breakOff(res, error);
    this.#finish(deadline.clientDisconnected ? 'client_left' : 'upstream_failed');
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
    const { res } = this.#plan;
    return res.destroyed || res.write(bytes);
  }

  #finish(ending: CallEnding): void {
    this.#plan.res.off('drain', this.#onDrain);
    this.#plan.res.off('close', this.#onClose);
    this.#done(ending);
  }

  /**
   * Resumes a paused body without its client: if the call may continue, to its end, otherwise to the end that the abort has
   * begun.
   */
  #onClose = (): void => {
    if (this.#plan.deadline.aborted) this.#body.resume();
    else this.#onDrain();
  };

  #onDrain = (): void => {
    this.#plan.deadline.arm(this.#plan.betweenChunks);
    this.#body.resume();
  };
}
