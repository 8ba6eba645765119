import type { IncomingMessage } from 'node:http';
import getRawBody from 'raw-body';
import { GatewayError } from '../errors.ts';
import { inflated } from './inflate.ts';

/** How much of a body is taken, and for how long. */
export interface BodyLimits {
  /** Bytes, counted after decompression. */
  readonly bytes: number;
  /** Milliseconds from the first read to the last byte. */
  readonly time: number;
}

/** Refuses a body of more bytes than the limit. */
export function checkSize(size: number, limits: BodyLimits): void {
  if (size > limits.bytes) throw tooLarge(limits);
}

function tooLarge(limits: BodyLimits): GatewayError {
  return new GatewayError('request_too_large', `The body is larger than ${limits.bytes} bytes`);
}

function badCompression(cause?: unknown): GatewayError {
  return new GatewayError('invalid_encoding', 'The body is not what its Content-Encoding says', { cause });
}

async function readInflated(req: IncomingMessage, limits: BodyLimits): Promise<Buffer> {
  const stream = inflated(req);
  try {
    const length = stream === req ? (req.headers['content-length'] ?? null) : null;
    const bytes = await getRawBody(stream, { limit: limits.bytes, length });
    if (!req.readableEnded) throw badCompression();
    return bytes;
  } catch (error) {
    if (stream !== req) {
      req.unpipe();
      stream.destroy();
    }
    if ((error as getRawBody.RawBodyError).type === 'entity.too.large') throw tooLarge(limits);
    const clientLeft = req.destroyed && !req.complete;
    throw stream === req || clientLeft ? error : badCompression(error);
  }
}

/**
 * Reads the whole body of a request that nobody has read yet.
 * @throws GatewayError `request_too_large`, counted after decompression; `request_timeout`;
 * `invalid_encoding` for compressed data that is none; `unsupported_media_type` for an unknown compression
 */
export function readBody(req: IncomingMessage, limits: BodyLimits): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(new GatewayError('request_timeout', 'The body did not arrive in time'));
    }, limits.time);
    const settled = readInflated(req, limits).finally(() => clearTimeout(timer));
    settled.then(resolve, reject);
  });
}
