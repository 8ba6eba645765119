import type { Transform } from 'node:stream';
import * as zlib from 'node:zlib';

interface DecoderOptions {
  /** The most bytes that it makes at once. */
  readonly chunkSize: number;
}

/** A stream that decompresses, and says how many of the bytes that came it has used. */
export type Decoder = Transform & { readonly bytesWritten: number };

/** Node 20 has no zstd, and its types do not know it. */
const { createZstdDecompress, constants } = zlib as {
  readonly createZstdDecompress?: (options: object) => Decoder;
  readonly constants: { readonly ZSTD_d_windowLogMax?: number };
};
/** A sender may use a window of 8 MiB (RFC 9659, section 3). Without this limit, a body of a few bytes can ask for 128 MiB of memory. */
const zstdParams = { [Number(constants.ZSTD_d_windowLogMax)]: 23 };

const decoders: Readonly<Record<string, (options: DecoderOptions) => Decoder>> = {
  gzip: zlib.createGunzip,
  'x-gzip': zlib.createGunzip,
  deflate: zlib.createInflate,
  br: zlib.createBrotliDecompress,
  ...(createZstdDecompress && { zstd: (options) => createZstdDecompress({ ...options, params: zstdParams }) }),
};

/** The encodings that clients are told of: `x-gzip` is an old name. */
export const encodings: readonly string[] = Object.keys(decoders).filter((name) => name !== 'x-gzip');

/** Makes the stream that decompresses a body with this `Content-Encoding`; `undefined` for one that Node does not know. */
export function createDecoder(encoding: unknown, options: DecoderOptions): Decoder | undefined {
  const name = String(encoding).trim().toLowerCase();
  return Object.hasOwn(decoders, name) ? decoders[name]?.(options) : undefined;
}

/** A compressed body may always grow to this many bytes, and beyond that only by this ratio. */
const freeOutput = 1024 * 1024;
export const largestRatio = 100;

/** Whether a body has become too large for the bytes of it that have come. */
export function growsTooMuch(received: number, decoded: number): boolean {
  return decoded > freeOutput && decoded > largestRatio * received;
}

/** Some servers send deflate without the zlib header that it has to have (RFC 9110, section 8.4.1.2), whose first byte ends in 8. */
function decoderFor(encoding: string, [first = 0]: Buffer, options: DecoderOptions): Transform | undefined {
  const isRaw = /^\s*deflate\s*$/i.test(encoding) && (first & 0x0f) !== 8;
  return isRaw ? zlib.createInflateRaw(options) : createDecoder(encoding, options);
}

/**
 * At least the first `enough` bytes of what these are when they are decompressed, as far as they go, however many would follow.
 * The bytes themselves, if nothing can be made of them. Never rejects.
 */
export function decompressBeginning(bytes: Buffer, encoding: string, enough: number): Promise<Buffer> | Buffer {
  const decoder = decoderFor(encoding, bytes, { chunkSize: enough });
  if (!decoder) return bytes;
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let length = 0;
    decoder.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      length += chunk.length;
      if (length >= enough) decoder.destroy();
    });
    // what was cut off ends with an error too
    decoder.on('error', () => {});
    decoder.on('close', () => resolve(length > 0 ? Buffer.concat(chunks) : bytes));
    decoder.end(bytes);
  });
}
