import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { GatewayError } from '../../errors.ts';
import type { MemoryReservation } from '../../fairness/account-shares.ts';
import { createDecoder, type Decoder, encodings, growsTooMuch, largestRatio } from '../../outbound/content-decoder.ts';
import type { OpenRequests } from '../request.ts';

/** How large a body may be, and how long it may take. */
export interface BodyLimits {
  /** Bytes, counted before decompression and after it. */
  readonly bytes: number;
  /** Milliseconds from the first read to the last byte. */
  readonly time: number;
}

export interface BodyBounds {
  readonly limits: BodyLimits;
  readonly buffer: BodyBuffer;
  /** Says when the gateway stops waiting for bodies. */
  readonly openRequests: OpenRequests;
}

/**
 * Reads the whole body of a request that was not read yet.
 * @throws GatewayError `request_too_large`, counted before decompression and after it, and also for a body that grows out of
 * proportion or has too many small chunks; `request_timeout`; `invalid_encoding` for compressed data that is none;
 * `unsupported_media_type` for an unknown compression; `rate_limit_exceeded` or `overloaded` when there is no memory for it;
 * `shutting_down`
 */
export function readBody(req: IncomingMessage, headers: IncomingHttpHeaders, bounds: BodyBounds): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    if (!req.readable) return reject(new Error('the body cannot be read any more'));
    if (req.readableEncoding !== null) return reject(new Error('the host has set an encoding for the body'));
    new BodyReader(req, headers, bounds, resolve, reject);
  });
}

/** Shared between copies of this package in one process, so that one can read what another keeps. */
const rawBodyKey = Symbol.for('express-model-gateway.rawBody');

/** A request, and the places where hosts and platforms leave its raw body. */
interface Keeping extends IncomingMessage {
  [rawBodyKey]?: Buffer;
  /** By custom of cloud functions, whose framework has parsed each body, and of `express.json({ verify })` recipes. */
  readonly rawBody?: unknown;
}

/**
 * Keeps the exact bytes of a body that the host parses before the gateway sees it:
 * `app.use(express.json({ verify: keepRawBody }))`. Without it such a body is serialised again,
 * which loses 64-bit integers and duplicate keys.
 */
export function keepRawBody(req: IncomingMessage, _res: unknown, buf: Buffer): void {
  (req as Keeping)[rawBodyKey] = buf;
}

/** The exact bytes of a body that was read before, where the host or its platform has kept them. */
export function keptBody(req: Keeping): Buffer | undefined {
  return req[rawBodyKey] ?? (Buffer.isBuffer(req.rawBody) ? req.rawBody : undefined);
}

/** A body may always have this many chunks, and beyond that one chunk per this many bytes: a chunk costs as much as a few hundred bytes. */
const freePieces = 10_000;
const bytesPerPiece = 512;

/** Refuses a body of more bytes than the limit, or in many more pieces than its length asks for. @throws GatewayError `request_too_large` */
export function checkSize(size: number, { bytes }: BodyLimits, pieces = 0): void {
  if (size > bytes) throw new GatewayError('request_too_large', `The body is larger than ${bytes} bytes`);
  if (pieces > freePieces + size / bytesPerPiece) {
    throw new GatewayError('request_too_large', 'The body comes in too many small pieces; send larger ones');
  }
}

/** The `Content-Encoding` of a body: `identity` where it has none. */
export function encodingOf(headers: IncomingHttpHeaders): string {
  return headers['content-encoding']?.trim().toLowerCase() || 'identity';
}

/**
 * Makes the stream that decompresses the body as `Content-Encoding` says (RFC 9110, section 8.4); `undefined` where none is needed.
 * @throws GatewayError `unsupported_media_type` for an encoding other than gzip, deflate, br and, where Node has it, zstd
 */
function decoderFor(encoding: string): Decoder | undefined {
  if (encoding === 'identity') return undefined;
  const decoder = createDecoder(encoding, { chunkSize: 64 * 1024 });
  if (decoder) return decoder;
  const message = `Content-Encoding must be ${encodings.join(' or ')}, or be left out`;
  throw new GatewayError('unsupported_media_type', message, { headers: { 'accept-encoding': encodings.join(', ') } });
}

function badCompression(cause?: unknown): GatewayError {
  return new GatewayError(
    'invalid_encoding',
    'The body is not what its Content-Encoding says; compress it in this encoding, or leave the header out',
    { cause },
  );
}

/** Reads one body, and counts it as it comes. */
class BodyReader {
  readonly #req: IncomingMessage;
  readonly #bounds: BodyBounds;
  readonly #decoder: Decoder | undefined;
  readonly #resolve: (bytes: Promise<Buffer>) => void;
  readonly #reject: (error: unknown) => void;
  readonly #announced: number;
  readonly #encoding: string;
  readonly #timer: NodeJS.Timeout;
  #received = 0;
  #pieces = 0;
  #isStopped = false;

  constructor(
    req: IncomingMessage,
    headers: IncomingHttpHeaders,
    bounds: BodyBounds,
    resolve: (bytes: Promise<Buffer>) => void,
    reject: (error: unknown) => void,
  ) {
    const { limits, openRequests } = bounds;
    this.#req = req;
    this.#bounds = bounds;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#announced = Number(headers['content-length'] ?? -1);
    this.#encoding = encodingOf(headers);
    const decoder = decoderFor(this.#encoding);
    this.#decoder = decoder;
    checkSize(this.#announced, limits);
    this.#timer = setTimeout(
      () => this.#fail(new GatewayError('request_timeout', 'The body did not arrive in time')),
      limits.time,
    );
    req.on('data', this.#onReceived);
    req.on('close', this.#onClose);
    (decoder ?? req).on('end', this.#onEnd);
    if (decoder) {
      decoder.on('data', this.#onPlain);
      // stays: what the reader is not told any more, because it has given up, must not end the process
      decoder.on('error', (error) => this.#fail(badCompression(error)));
      req.pipe(decoder);
    }
    openRequests.bodyBegun(this.#fail);
  }

  #onReceived = (chunk: Buffer): void => {
    this.#received += chunk.length;
    this.#pieces += 1;
    try {
      // of what is compressed, too: data that decompresses to nothing could arrive without end
      checkSize(this.#received, this.#bounds.limits, this.#pieces);
      if (!this.#decoder) this.#bounds.buffer.add(chunk);
    } catch (error) {
      this.#fail(error);
    }
    // a complete body need not wait for the end event
    if (!this.#decoder && this.#received === this.#announced) this.#onEnd();
  };

  #onPlain = (chunk: Buffer): void => {
    const { buffer, limits } = this.#bounds;
    const length = buffer.length + chunk.length;
    try {
      checkSize(length, limits);
      if (growsTooMuch(this.#received, length)) {
        throw new GatewayError('request_too_large', `The body grows more than ${largestRatio}-fold when decompressed`);
      }
      buffer.add(chunk);
    } catch (error) {
      this.#fail(error);
    }
  };

  #onEnd = (): void => {
    const decoder = this.#decoder;
    // compressed data may end before the body does. zstd leaves unread what follows its data; zeros may follow gzip, which fails itself at
    // anything else
    const isUsedUp = this.#encoding !== 'zstd' || decoder?.bytesWritten === this.#received;
    if (decoder && !(this.#req.readableEnded && isUsedUp)) this.#fail(badCompression());
    else if (this.#stop()) this.#resolve(this.#bounds.buffer.joined());
  };

  #onClose = (): void => {
    if (!this.#req.complete) this.#fail(new Error('the client left in the middle of the body'));
  };

  #fail = (error: unknown): void => {
    if (this.#stop()) this.#reject(error);
  };

  /** @returns whether it had not been stopped before */
  #stop(): boolean {
    if (this.#isStopped) return false;
    this.#isStopped = true;
    clearTimeout(this.#timer);
    this.#bounds.openRequests.bodyEnded(this.#fail);
    this.#req.off('data', this.#onReceived);
    this.#req.off('end', this.#onEnd);
    this.#req.off('close', this.#onClose);
    if (this.#decoder) {
      this.#req.unpipe(this.#decoder);
      this.#decoder.off('data', this.#onPlain);
      this.#decoder.off('end', this.#onEnd);
      this.#decoder.destroy();
    }
    return true;
  }
}

/** A shorter chunk is copied, because it may be a slice of a buffer many times as long. */
const worthKeeping = 32 * 1024;
const blockLength = 64 * 1024;
/** How many bytes are copied before the event loop runs again: that takes some milliseconds, because the memory is new. */
const copiedInOneTurn = 2 * 1024 * 1024;

/** The memory that one body takes. Collects its chunks, without holding much more memory than it has bytes, however small they are. */
export class BodyBuffer {
  /** What has been added. Bytes. */
  length = 0;
  readonly #reservation: MemoryReservation;
  readonly #parts: Buffer[] = [];
  /** Where short chunks are copied to: the rest of a block, and how much of it is filled. */
  #block: Buffer | undefined;
  #filled = 0;

  constructor(reservation: MemoryReservation) {
    this.#reservation = reservation;
  }

  /** @throws GatewayError `rate_limit_exceeded` or `overloaded` when there is no room for so many bytes more */
  reserve(bytes: number): void {
    this.#reservation.resize(this.#reservation.bytes + bytes);
  }

  release(): void {
    this.#reservation.release();
  }

  /** Reserves memory for a chunk, and keeps it. @throws GatewayError as {@link reserve} does */
  add(chunk: Buffer): void {
    this.reserve(chunk.length);
    const isFirst = this.length === 0;
    this.length += chunk.length;
    // most bodies are one chunk
    if (isFirst || chunk.length >= worthKeeping) {
      this.#endPart();
      this.#parts.push(chunk);
      return;
    }
    for (let at = 0; at < chunk.length; ) {
      this.#block ??= Buffer.allocUnsafeSlow(blockLength);
      const copied = chunk.copy(this.#block, this.#filled, at);
      at += copied;
      this.#filled += copied;
      if (this.#filled === this.#block.length) this.#endPart();
    }
  }

  /** Joins everything, once. A long body is copied in steps, and none of it is in memory twice. */
  async joined(): Promise<Buffer> {
    this.#endPart();
    // this object lives as long as the answer
    this.#block = undefined;
    const parts = this.#parts.splice(0).reverse();
    if (parts.length === 1) return parts[0] as Buffer;
    const whole = Buffer.allocUnsafeSlow(this.length);
    let at = 0;
    let turnEnd = copiedInOneTurn;
    for (let part = parts.pop(); part; part = parts.pop()) {
      at += part.copy(whole, at);
      if (at < turnEnd) continue;
      turnEnd = at + copiedInOneTurn;
      await nextTurn();
    }
    return whole;
  }

  #endPart(): void {
    if (!this.#block || this.#filled === 0) return;
    this.#parts.push(this.#block.subarray(0, this.#filled));
    const rest = this.#block.subarray(this.#filled);
    this.#block = rest.length > 0 ? rest : undefined;
    this.#filled = 0;
  }
}
