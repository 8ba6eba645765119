import type { IncomingMessage } from 'node:http';
import type { Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { GatewayError } from '../../errors.ts';

const options = { chunkSize: 64 * 1024 };

const decoders: Readonly<Record<string, () => Transform>> = {
  gzip: () => createGunzip(options),
  'x-gzip': () => createGunzip(options),
  deflate: () => createInflate(options),
  br: () => createBrotliDecompress(options),
};

/**
 * What decompresses the body as `Content-Encoding` says (RFC 9110, section 8.4); `undefined` where nothing has to.
 * @throws GatewayError `unsupported_media_type` for an encoding other than gzip, deflate and br
 */
export function decoderFor(req: IncomingMessage): Transform | undefined {
  const encoding = req.headers['content-encoding']?.trim().toLowerCase() ?? 'identity';
  if (encoding === 'identity' || encoding === '') return undefined;
  if (!Object.hasOwn(decoders, encoding)) {
    throw new GatewayError('unsupported_media_type', 'Content-Encoding must be gzip, deflate or br, or be left out', {
      headers: { 'accept-encoding': 'gzip, deflate, br' },
    });
  }
  return (decoders[encoding] as () => Transform)();
}
