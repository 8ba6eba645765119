import type { Transform } from 'node:stream';
import * as zlib from 'node:zlib';

interface DecoderOptions {
  /** The most bytes that it makes at once. */
  readonly chunkSize: number;
}

/** Node 20 has no zstd, and its types do not know it. */
const { createZstdDecompress } = zlib as {
  readonly createZstdDecompress?: (options: DecoderOptions) => Transform;
};

const decoders: Readonly<Record<string, ((options: DecoderOptions) => Transform) | undefined>> = {
  gzip: zlib.createGunzip,
  'x-gzip': zlib.createGunzip,
  deflate: zlib.createInflate,
  br: zlib.createBrotliDecompress,
  zstd: createZstdDecompress,
};

/** Makes the stream that decompresses a body with this `Content-Encoding`; `undefined` for one that Node does not know. */
export function createDecoder(encoding: unknown, options: DecoderOptions): Transform | undefined {
  const name = String(encoding).trim().toLowerCase();
  return Object.hasOwn(decoders, name) ? decoders[name]?.(options) : undefined;
}
