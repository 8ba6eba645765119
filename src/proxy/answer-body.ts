import type { Transform } from 'node:stream';
import { createDecoder } from '../outbound/content-decoder.ts';
import type { BodySink, OutboundResponse, ResponseBody } from '../outbound/exchange.ts';
import { classify, type OutboundError, outboundError } from '../outbound/outbound-error.ts';
import type { CallDeadline } from './call-deadline.ts';
import { isEncoded } from './headers.ts';

/** The part of a body that the relay uses. */
export interface RelayedBody extends Pick<ResponseBody, 'flowTo' | 'resume' | 'destroy'> {
  /** The whole body, where it is held and no longer than the limit (bytes); then there is nothing else to read. */
  heldWhole?(limit: number): Buffer | undefined;
}

/** A response whose body may have been decompressed. */
export interface DecodedResponse extends Omit<OutboundResponse, 'data'> {
  readonly data: RelayedBody;
}

/**
 * A response with its body decompressed, for an upstream that compresses although it was asked not to. A response in an encoding
 * that Node does not know stays as it is.
 */
export function decoded(response: OutboundResponse): DecodedResponse {
  if (!isEncoded(response.headers)) return response;
  const decoder = createDecoder(response.headers['content-encoding'], { chunkSize: 16 * 1024 });
  if (!decoder) return response;
  const { 'content-encoding': _, 'content-length': __, ...headers } = response.headers;
  // compressed data says itself where it ends, as chunks do
  return {
    ...response,
    headers: { ...headers, 'transfer-encoding': 'chunked' },
    data: new DecodedBody(response.data, decoder),
  };
}

/** A body may always grow to this many bytes, and beyond that only by this ratio. */
const freeOutput = 1024 * 1024;
const largestRatio = 100;

/** A body that is decompressed as it comes: what a chunk holds is passed on at once, and no faster than the sink takes it. */
class DecodedBody implements RelayedBody {
  readonly #source: RelayedBody;
  readonly #decoder: Transform;
  #sink: BodySink | undefined;
  #received = 0;
  #length = 0;
  #hasBegun = false;
  /** What ended the source, if it did not end well. */
  #failure: OutboundError | undefined;
  #outcome: 'end' | OutboundError | undefined;

  constructor(source: RelayedBody, decoder: Transform) {
    this.#source = source;
    this.#decoder = decoder;
    // stays: an error that no caller waits for must not end the process
    decoder.on('error', (cause) => this.#settle(this.#failure ?? outboundError('invalid_response', cause)));
    decoder.on('end', () => this.#settle(this.#failure ?? 'end'));
    decoder.on('drain', () => source.resume());
  }

  flowTo(sink: BodySink): void {
    this.#sink = sink;
    if (this.#outcome !== undefined) this.#notify(sink, this.#outcome);
    else if (this.#hasBegun) this.#decoder.resume();
    else this.#begin();
  }

  resume(): void {
    this.#decoder.resume();
  }

  destroy(): void {
    this.#sink = undefined;
    this.#source.destroy();
    this.#decoder.destroy();
  }

  #begin(): void {
    this.#hasBegun = true;
    const decoder = this.#decoder;
    decoder.on('data', (chunk: Buffer) => this.#onDecoded(chunk));
    this.#source.flowTo({
      onChunk: (chunk) => {
        this.#received += chunk.length;
        return decoder.writable ? decoder.write(chunk) : true;
      },
      onEnd: () => decoder.end(),
      onError: (error) => {
        this.#failure = error;
        // what has come before is passed on first
        decoder.end();
      },
    });
  }

  #onDecoded(chunk: Buffer): void {
    this.#length += chunk.length;
    if (this.#length > freeOutput && this.#length > largestRatio * this.#received) {
      this.#settle(outboundError('invalid_response'));
      return;
    }
    try {
      if (this.#sink?.onChunk(chunk) === false) this.#decoder.pause();
    } catch (error) {
      this.#settle(classify(error));
    }
  }

  #settle(outcome: 'end' | OutboundError): void {
    if (this.#outcome !== undefined) return;
    this.#outcome = outcome;
    const sink = this.#sink;
    // nothing more is wanted of either
    this.destroy();
    if (sink) this.#notify(sink, outcome);
  }

  #notify(sink: BodySink, outcome: 'end' | OutboundError): void {
    this.#sink = undefined;
    if (outcome === 'end') sink.onEnd();
    else sink.onError(outcome);
  }
}

/** How long a body is peeked at. */
export interface PeekLimits {
  /** Of the call: armed while the body is peeked at. */
  readonly deadline: Pick<CallDeadline, 'arm' | 'reset' | 'disarm'>;
  /** Milliseconds. */
  readonly betweenChunks: number;
  /** Milliseconds. @default no limit but that of the call */
  readonly maxWait?: number;
}

/** What has come of a body. */
export type BodyStart = Pick<PeekedBody, 'length' | 'isWhole' | 'bytes'>;

/** A body whose first bytes are looked at before it is read from its beginning. Call {@link peek} first, once. */
export class PeekedBody implements RelayedBody {
  readonly #source: RelayedBody;
  #held: Buffer[] = [];
  /** Bytes that have come. */
  length = 0;
  #outcome: 'end' | OutboundError | undefined;
  #sink: BodySink | undefined;
  /** Whether the sink has got everything that is held, and gets the rest from the source. */
  #isReplayed = false;

  constructor(source: RelayedBody) {
    this.#source = source;
  }

  /**
   * Reads until `decide` returns something else than `undefined`, and resolves to that. Resolves to `undefined` when the body ends or breaks
   * off before, or takes too long.
   */
  peek<T>(
    decide: (start: BodyStart) => T | undefined,
    { deadline, betweenChunks, maxWait }: PeekLimits,
  ): Promise<T | undefined> {
    return new Promise((resolve) => {
      let isDecided = false;
      let timer: NodeJS.Timeout | undefined;
      const settle = (value: T | undefined): void => {
        isDecided = true;
        clearTimeout(timer);
        deadline.disarm();
        resolve(value);
      };
      deadline.arm(betweenChunks);
      this.#source.flowTo({
        onChunk: (chunk) => {
          this.#held.push(chunk);
          this.length += chunk.length;
          if (isDecided) return false;
          deadline.reset();
          const decided = decide(this);
          if (decided !== undefined) settle(decided);
          return decided === undefined;
        },
        onEnd: () => {
          this.#outcome = 'end';
          if (!isDecided) settle(decide(this));
        },
        onError: (error) => {
          this.#outcome = error;
          if (!isDecided) settle(undefined);
        },
      });
      // a short answer has come whole with its head
      if (!isDecided && maxWait !== undefined) timer = setTimeout(() => settle(undefined), maxWait);
    });
  }

  get isWhole(): boolean {
    return this.#outcome === 'end';
  }

  /** The bytes that have come. Not after it is read. */
  bytes(): Buffer {
    if (this.#held.length !== 1) this.#held = [Buffer.concat(this.#held)];
    return this.#held[0] as Buffer;
  }

  heldWhole(limit: number): Buffer | undefined {
    return this.isWhole && this.length <= limit ? this.bytes() : undefined;
  }

  flowTo(sink: BodySink): void {
    this.#sink = sink;
    this.#replay();
  }

  resume(): void {
    if (this.#isReplayed) this.#source.resume();
    else this.#replay();
  }

  destroy(): void {
    this.#held = [];
    this.#sink = undefined;
    this.#source.destroy();
  }

  /** Sends on what is held, as far as the sink takes it. */
  #replay(): void {
    const sink = this.#sink;
    if (!sink) return;
    for (let chunk = this.#held.shift(); chunk; chunk = this.#held.shift()) if (!sink.onChunk(chunk)) return;
    if (this.#outcome === undefined) {
      this.#isReplayed = true;
      this.#source.flowTo(sink);
      return;
    }
    this.#sink = undefined;
    if (this.#outcome === 'end') sink.onEnd();
    else sink.onError(this.#outcome);
  }
}

/** The most that is read to see whether a body is a stream. Bytes. */
const peekLimit = 1024;
/** What a line of a stream of events begins with (WHATWG HTML, 9.2.6). */
const lineStarts = ['data:', 'event:', 'id:', 'retry:', ':'];

/** Whether a body begins like server-sent events; `undefined` when more of it has to be seen. Pure. */
export function beginsAsEvents(bytes: Buffer): boolean | undefined {
  // a byte order mark and blank lines may come first
  const text = bytes.toString('latin1', 0, peekLimit).replace(/^(?:\u00ef\u00bb\u00bf)?[\r\n]*/, '');
  if (lineStarts.some((start) => text.startsWith(start))) return true;
  const mayBegin = text === '\u00ef' || text === '\u00ef\u00bb' || lineStarts.some((start) => start.startsWith(text));
  return mayBegin && bytes.length < peekLimit ? undefined : false;
}

/** A body, or as much of it as the limit allows. */
export interface Collected {
  readonly bytes: Buffer;
  /** Whether that is all of it; if not, the rest waits in the body. */
  readonly whole: boolean;
}

/**
 * Holds a body until it is whole or exceeds the limit, so that the gateway can still answer with an error when it breaks off or
 * is invalid. Rejects with the body's OutboundError.
 * @param onProgress called for every chunk
 */
export function collect(body: RelayedBody, limit: number, onProgress?: () => void): Promise<Collected> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let length = 0;
    const joined = (): Buffer => (parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts));
    body.flowTo({
      onChunk(chunk) {
        onProgress?.();
        parts.push(chunk);
        length += chunk.length;
        if (length <= limit) return true;
        resolve({ bytes: joined(), whole: false });
        return false;
      },
      onEnd: () => resolve({ bytes: joined(), whole: true }),
      onError: reject,
    });
  });
}

/** Whether a body is JSON. */
export function isJson(bytes: Buffer): boolean {
  try {
    // each byte as one character: bytes beyond ASCII occur only inside strings
    JSON.parse(bytes.toString('latin1'));
    return true;
  } catch {
    return false;
  }
}
