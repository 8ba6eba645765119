import type { IncomingMessage } from 'node:http';
import type { Readable, Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { GatewayError } from '../errors.ts';

const decoders: Readonly<Record<string, () => Transform>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
};

/**
 * The body as a stream of its bytes, decompressed as `Content-Encoding` says (RFC 9110, section 8.4).
 * @throws GatewayError `unsupported_media_type` for an encoding other than gzip, deflate and br
 */
export function inflated(req: IncomingMessage): Readable {
  const encoding = req.headers['content-encoding']?.trim().toLowerCase() ?? 'identity';
  if (encoding === 'identity' || encoding === '') return req;
  if (!Object.hasOwn(decoders, encoding)) {
    throw new GatewayError('unsupported_media_type', 'Content-Encoding must be gzip, deflate or br, or be left out', {
      headers: { 'accept-encoding': 'gzip, deflate, br' },
    });
  }
  const decoder = (decoders[encoding] as () => Transform)();
  // what the reader is not told any more, because it has given up, must not end the process
  decoder.on('error', () => {});
  // `pipe` does not pass on that the client has left, and `pipeline` would destroy the socket when the data is bad
  req.once('close', () => {
    if (!req.complete) decoder.destroy(new Error('the client left'));
  });
  return req.pipe(decoder);
}
