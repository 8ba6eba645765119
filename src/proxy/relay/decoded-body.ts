import type { Transform } from 'node:stream';
import { createDecoder } from '../../outbound/content-decoder.ts';
import type { BodySink, OutboundResponse, ResponseBody } from '../../outbound/exchange.ts';
import { classify, type OutboundError, outboundError } from '../../outbound/outbound-error.ts';
import { isEncoded } from '../headers.ts';

/** The part of a body that the relay uses. */
export type RelayedBody = Pick<ResponseBody, 'takeWhole' | 'flowTo' | 'resume' | 'destroy'>;

/** A response whose body may have been decompressed. */
export interface DecodedResponse extends Omit<OutboundResponse, 'data'> {
  readonly data: RelayedBody;
}

/** A body may always grow to this many bytes, and beyond that only by this ratio. */
const freeOutput = 1024 * 1024;
const largestRatio = 100;

const options = { chunkSize: 16 * 1024 };

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

  takeWhole(): undefined {
    return undefined;
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

/**
 * A response with its body decompressed, for an upstream that compresses although it was asked not to. A response in an encoding
 * that Node does not know stays as it is.
 */
export function decoded(response: OutboundResponse): DecodedResponse {
  if (!isEncoded(response.headers)) return response;
  const decoder = createDecoder(response.headers['content-encoding'], options);
  if (!decoder) return response;
  const { 'content-encoding': _, 'content-length': __, ...headers } = response.headers;
  // compressed data says itself where it ends, as chunks do
  return {
    ...response,
    headers: { ...headers, 'transfer-encoding': 'chunked' },
    data: new DecodedBody(response.data, decoder),
  };
}
