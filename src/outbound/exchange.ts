import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { decompressBeginning } from './content-decoder.ts';
import type { Abortable } from './deadline.ts';
import { classify, isLengthMismatch, OutboundError, outboundError } from './outbound-error.ts';

/** One request to the outside, under axios' names: what is read of axios' own configuration. */
export interface OutboundRequest {
  /** Absolute, with its query. */
  readonly url?: string;
  /** @default 'get' */
  readonly method?: string;
  /** `null`, `undefined` and `false` leave a header out. @default none */
  readonly headers?: Readonly<Record<string, unknown>>;
  /**
   * The bytes that are sent; several pieces are sent one after the other, without copying them into one. Of a stream, `headers` tell the
   * length, if it is known. @default no body
   */
  readonly data?: Buffer | readonly Buffer[] | Readable | null;
  /** Covers the whole call, body included. @default no limit */
  readonly signal?: Abortable;
  /** Whether it may be sent again although the other side may have got it: when a kept connection ends before an answer. @default false */
  readonly resends?: boolean;
  /** Called when there is a connection, right before the request is written to it. If it throws, nothing is written. */
  readonly onSend?: (() => void) | undefined;
  /** Called when a kept connection has ended before an answer, and the request is about to be sent again. */
  readonly onLost?: (() => void) | undefined;
}

/** Two ways to the same origins, by the same rules for connections. */
export interface PooledDispatcher {
  /** Takes a kept connection where one is free. */
  readonly pooled: Dispatcher;
  /** Opens a connection for every request. */
  readonly fresh: Dispatcher;
  /** Ends all connections. */
  destroy(): Promise<void>;
}

/** A response, whatever its status. Its body may still be on its way. */
export interface OutboundResponse {
  readonly status: number;
  readonly statusText: string;
  /** Names in lower case, values as they came. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly data: ResponseBody;
}

/** How many interim responses (1xx) are skipped before the final one; more than that is not valid HTTP. */
const interimLimit = 20;

/** These have no body, whatever length they announce (RFC 9110, section 8.6). */
const bodiless: ReadonlySet<number> = new Set([204, 304]);

/** One request under way: connects undici's callbacks, the caller's signal and the caller's promise. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #signal: Abortable | undefined;
  readonly #onSend: OutboundRequest['onSend'];
  readonly #resolve: (response: OutboundResponse) => void;
  readonly #reject: (error: OutboundError) => void;
  #controller: Dispatcher.DispatchController | null = null;
  #body: ResponseBody | null = null;
  #status = 0;
  #interims = 0;
  #written = false;
  #answered = false;

  constructor(
    { signal, onSend }: OutboundRequest,
    resolve: (response: OutboundResponse) => void,
    reject: (error: OutboundError) => void,
  ) {
    this.#signal = signal;
    this.#onSend = onSend;
    this.#resolve = resolve;
    this.#reject = reject;
    signal?.addEventListener('abort', this.#onAbort);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#signal?.aborted) controller.abort(classify(this.#signal.reason));
    else {
      this.#onSend?.();
      this.#written = true;
    }
  }

  /** The first byte of a response: from now on the request counts as received. */
  onResponseStarted(): void {
    this.#answered = true;
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: OutboundResponse['headers'],
    statusText = '',
  ): void {
    if (status < 200) {
      this.#interims += 1;
      if (this.#interims > interimLimit) controller.abort(outboundError('invalid_response'));
      return;
    }
    this.#status = status;
    this.#body = new ResponseBody(controller);
    this.#resolve({ status, statusText, headers, data: this.#body });
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    // undici (7) gives an empty chunk behind each that fills its buffer, and passing it on would cost a write to the socket
    if (chunk.length > 0) this.#body?.push(chunk);
  }

  onResponseEnd(): void {
    this.#signal?.removeEventListener('abort', this.#onAbort);
    this.#body?.settle('end');
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#signal?.removeEventListener('abort', this.#onAbort);
    if (!this.#body) this.#fail(error);
    else if (!isLengthMismatch(error)) this.#body.settle(classify(error));
    else this.#body.settle(bodiless.has(this.#status) ? 'end' : outboundError('reset', error));
  }

  #fail(error: unknown): void {
    const { code, message, reusedSocket, isUnsent, status } = classify(error);
    // a socket counts as reused when it has read bytes, but they may belong to this response
    const wasReused = reusedSocket && !this.#answered;
    const wasUnsent = !this.#written || (isUnsent && !this.#answered);
    const details = { reusedSocket: wasReused, isUnsent: wasUnsent, status, cause: error };
    this.#reject(new OutboundError(code, message, details));
  }

  #onAbort = (): void => {
    this.#signal?.removeEventListener('abort', this.#onAbort);
    const error = classify(this.#signal?.reason);
    if (this.#controller) this.#controller.abort(error);
    // there is no connection yet: the caller gets the error now, and undici when it starts the request
    else this.#reject(error.code === 'timeout' ? outboundError('connect_timeout', error) : error);
  };
}

/** A URL that needs no parsing: nothing to normalise, no user, no fragment. Its query may have any printable ASCII but `#`. */
const plainUrl = /^(https?:\/\/[a-z0-9.-]+(?::\d+)?)(\/[\w\-~:@!$&'()*+,;=%/]*(?:\?[!"$-~]*)?)$/;

/** The origin of a URL, and its path with the query. @throws TypeError `ERR_INVALID_URL` */
export function splitUrl(url: string): { origin: string; path: string } {
  const [, origin, path] = plainUrl.exec(url) ?? [];
  if (origin !== undefined && path !== undefined) return { origin, path };
  const parsed = new URL(url);
  return { origin: parsed.origin, path: parsed.pathname + parsed.search };
}

/**
 * Makes one request, at a fraction of the cost of axios' own adapter or of undici's `request`. Resolves whatever the status is, and
 * rejects with an `OutboundError`. Follows no redirects, decompresses nothing, and ignores proxies of the environment: the dispatcher's is the one that counts.
 *
 * The other side may close a kept connection at any time, which is no failure of it: a request that meets one without any answer is sent once more on a
 * new one (RFC 9110, section 9.2.2). Where it must not arrive twice, only if the other side certainly has not read all of it.
 */
export function exchange(dispatcher: PooledDispatcher, request: OutboundRequest): Promise<OutboundResponse> {
  const { signal, data, resends, onLost } = request;
  if (signal?.aborted) return Promise.reject(classify(signal.reason));
  // what has been read of a stream is gone, so it must not meet a connection that the other side is closing
  if (data instanceof Readable) return sendOver(dispatcher.fresh, request);
  return sendOver(dispatcher.pooled, request).catch((error: OutboundError) => {
    if (!error.reusedSocket || !(resends || error.isUnsent) || signal?.aborted) throw error;
    onLost?.();
    return sendOver(dispatcher.fresh, request);
  });
}

function sendOver(dispatcher: Dispatcher, request: OutboundRequest): Promise<OutboundResponse> {
  const { origin, path } = splitUrl(request.url ?? '');
  const method = (request.method ?? 'get').toUpperCase() as Dispatcher.HttpMethod;
  const body = request.data ?? null;
  const headers: string[] = [];
  for (const name in request.headers) {
    const value = request.headers[name];
    if (value === null || value === undefined || value === false) continue;
    if (!Array.isArray(value)) headers.push(name, String(value));
    else for (const line of value) headers.push(name, String(line));
  }
  if (Array.isArray(body)) {
    headers.push('content-length', String(body.reduce((sum: number, { length }: Buffer) => sum + length, 0)));
  }
  return new Promise((resolve, reject) => {
    // undici takes any iterable, which its types do not say
    const options = { origin, path, method, headers, body: body as Buffer | null };
    dispatcher.dispatch(options, new Exchange(request, resolve, reject));
  });
}

/** Receives a response's body; exactly one of `onEnd` and `onError` is called, unless the body is taken away from it. */
export interface BodySink {
  /** @returns false to stop the flow until {@link ResponseBody.resume} is called */
  onChunk(chunk: Buffer): boolean;
  onEnd(): void;
  onError(error: OutboundError): void;
}

/** The value of a header that may be there once; the first one, if there are several: a server behind proxies may send it twice. */
export function firstHeader(
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
  name: string,
): string | undefined {
  const value = headers[name];
  return typeof value === 'object' ? value[0] : value;
}

/** How much of a body {@link textOfBeginning} reads. */
export interface BeginningLimits {
  /** Bytes that are read before the rest is dropped. */
  readonly read: number;
  /** Bytes that become text, after decompression. */
  readonly keep: number;
  /** How long the body is read after its head. Milliseconds. */
  readonly time: number;
}

/**
 * The beginning of a body as a person can read it, as far as it came: decompressed, and in the charset of its `Content-Type`; in
 * UTF-8 if that names none, or one that Node does not know. Whole characters. Never rejects.
 */
export async function textOfBeginning({ headers, data }: OutboundResponse, limits: BeginningLimits): Promise<string> {
  const bytes = data.takeWhole() ?? (await data.readBeginning(limits.read, limits.time));
  if (bytes.length === 0) return '';
  const encoding = firstHeader(headers, 'content-encoding');
  const plain = encoding ? await decompressBeginning(bytes, encoding, limits.keep) : bytes;
  const kept = plain.subarray(0, limits.keep);
  const [, charset = 'utf-8'] =
    /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(firstHeader(headers, 'content-type') ?? '') ?? [];
  try {
    return new TextDecoder(charset).decode(kept, { stream: true });
  } catch {
    return new TextDecoder().decode(kept, { stream: true });
  }
}

/** How much waits in memory for a sink before the sender is paused. Bytes. */
const bufferLimit = 64 * 1024;

/**
 * The body of one response. It goes to a sink directly, without a stream, and pauses when the sink is full. What has arrived before waits.
 * Destroy a body that you do not read.
 */
export class ResponseBody {
  readonly #controller: Pick<Dispatcher.DispatchController, 'pause' | 'resume' | 'abort'>;
  #sink: BodySink | null = null;
  #onArrival: (() => void) | undefined;
  #waiting: Buffer[] = [];
  /** How much has arrived and waits for a sink. Bytes. */
  length = 0;
  /** How it has ended; `null` while more may arrive. */
  outcome: 'end' | OutboundError | null = null;
  #destroyed = false;

  /** @param controller what sends the bytes */
  constructor(controller: Pick<Dispatcher.DispatchController, 'pause' | 'resume' | 'abort'>) {
    this.#controller = controller;
  }

  /** Whether it has arrived to its end. */
  get isWhole(): boolean {
    return this.outcome === 'end';
  }

  /** What has arrived and waits for a sink. */
  bytes(): Buffer {
    if (this.#waiting.length !== 1) this.#waiting = [Buffer.concat(this.#waiting)];
    return this.#waiting[0] as Buffer;
  }

  /**
   * Calls a listener when more has arrived that waits for a sink, and when the body has ended; at once if something has. Meanwhile the sender is
   * not paused. `undefined` removes the listener.
   */
  onArrival(listener: (() => void) | undefined): void {
    this.#onArrival = listener;
    if (!listener) return;
    if (this.length > 0 || this.outcome !== null) listener();
    if (this.outcome === null && this.#onArrival) this.#controller.resume();
  }

  /**
   * The whole body if all of it has arrived, as short bodies do together with their heads, and is no longer than the limit; otherwise `undefined`.
   * @param limit bytes. @default no limit
   */
  takeWhole(limit = Number.POSITIVE_INFINITY): Buffer | undefined {
    if (!this.isWhole || this.#sink || this.#destroyed || this.length > limit) return undefined;
    this.#destroyed = true;
    return this.#takeWaiting();
  }

  /**
   * The first `limit` bytes, or what has come of them when `time` milliseconds are over, or when the body breaks off. Drops the
   * rest. Never rejects.
   */
  readBeginning(limit: number, time: number): Promise<Buffer> {
    return new Promise((resolve) => {
      const bytes = Buffer.alloc(limit);
      let length = 0;
      const end = () => {
        clearTimeout(timer);
        resolve(bytes.subarray(0, length));
      };
      const drop = () => {
        this.destroy();
        end();
      };
      const timer = setTimeout(drop, time);
      this.flowTo({
        onChunk(chunk) {
          length += chunk.copy(bytes, length);
          if (length < limit) return true;
          drop();
          return false;
        },
        onEnd: end,
        onError: end,
      });
    });
  }

  /** Sends everything that has arrived, as one chunk, and what will arrive to `sink`. */
  flowTo(sink: BodySink): void {
    this.#sink = sink;
    let open = true;
    if (this.length > 0) open = sink.onChunk(this.#takeWaiting());
    // it may have been taken away again
    if (this.#sink !== sink) return;
    if (this.outcome !== null) this.#notify(sink, this.outcome);
    else if (open) this.resume();
    else this.#controller.pause();
  }

  /** Takes the body away from its sink: what is left of it waits for another one. */
  hold(): void {
    this.#sink = null;
    this.#controller.pause();
  }

  /** Continues after a sink has stopped the flow. */
  resume(): void {
    if (this.outcome === null) this.#controller.resume();
  }

  /** Drops the rest of the body and the connection. The sink is not called any more. */
  destroy(): void {
    if (this.#destroyed) return;
    this.#destroyed = true;
    this.#waiting = [];
    this.length = 0;
    if (this.outcome !== null) return;
    this.#controller.abort(new OutboundError('aborted', 'the call was aborted'));
  }

  /** The body as a stream. @param onProgress called for every chunk. @default not called */
  toReadable(onProgress?: () => void): Readable {
    const readable = new Readable({
      read: () => this.resume(),
      destroy: (error, callback) => {
        this.destroy();
        callback(error);
      },
    });
    this.flowTo({
      onChunk(chunk) {
        onProgress?.();
        return readable.push(chunk);
      },
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
    this.length += chunk.length;
    this.#onArrival?.();
    if (!this.#onArrival && this.length >= bufferLimit) this.#controller.pause();
  }

  /** @internal */
  settle(outcome: 'end' | OutboundError): void {
    if (this.outcome !== null) return;
    this.outcome = outcome;
    if (this.#sink) this.#notify(this.#sink, outcome);
    else this.#onArrival?.();
  }

  #takeWaiting(): Buffer {
    const bytes = this.bytes();
    this.#waiting = [];
    this.length = 0;
    return bytes;
  }

  #notify(sink: BodySink, outcome: 'end' | OutboundError): void {
    if (this.#destroyed) return;
    this.#destroyed = true;
    if (outcome === 'end') sink.onEnd();
    else sink.onError(outcome);
  }
}
