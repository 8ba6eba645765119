import type { Transform } from 'node:stream';
import { createInflateRaw } from 'node:zlib';
import { createDecoder } from '../outbound/content-decoder.ts';
import type { OutboundResponse } from '../outbound/exchange.ts';
import type { ResponseBody } from '../outbound/response-body.ts';

/** How much of a response is read before the rest is dropped. Bytes. */
const readLimit = 4_096;
/** How much of it is stored. Bytes. */
const keepLimit = 1_024;
/** How long a body is read after its head. Milliseconds. */
const readTime = 2_000;
/** How much of a header is stored. Characters. */
const retryAfterLimit = 100;
const locationLimit = 2_048;
/** The first bytes that are decompressed are as many as are stored. */
const decoderOptions = { chunkSize: keepLimit };

/** The part of a response that is recorded. */
export interface RecordedResponse {
  readonly status: number;
  /** `Retry-After`, as it came. */
  readonly retryAfter?: string;
  /** `Location`, as it came. */
  readonly location?: string;
  /** The beginning of the body, as far as it came, as text; may be empty. */
  readonly response: string;
}

/** Text that can be stored and shown: no control characters except tab and newline. */
function withoutControls(text: string): string {
  return text.replace(/[^\P{Cc}\t\n]/gu, '');
}

type HeaderValue = string | string[] | undefined;

const firstOf = (value: HeaderValue) => (typeof value === 'object' ? value[0] : value);

/** The beginning of a header's first value. */
function headerText(value: HeaderValue, limit: number): string | undefined {
  const first = firstOf(value);
  return first && withoutControls(first).slice(0, limit);
}

/** Some servers send deflate without the zlib header that it has to have (RFC 9110, section 8.4.1.2), whose first byte ends in 8. */
function decoderFor(encoding: string, [first = 0]: Buffer): Transform | undefined {
  const isRaw = /^\s*deflate\s*$/i.test(encoding) && (first & 0x0f) !== 8;
  return isRaw ? createInflateRaw(decoderOptions) : createDecoder(encoding, decoderOptions);
}

/**
 * The beginning of what these bytes are when they are decompressed, as far as they go. It stops at the first bytes that are enough,
 * however many would follow. The bytes themselves, if nothing can be made of them. Never rejects.
 */
function decompressed(bytes: Buffer, encoding: string | undefined): Promise<Buffer> | Buffer {
  const decoder = encoding === undefined ? undefined : decoderFor(encoding, bytes);
  if (!decoder) return bytes;
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let length = 0;
    const end = () => resolve(length > 0 ? Buffer.concat(chunks) : bytes);
    decoder.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      length += chunk.length;
      if (length >= keepLimit) decoder.destroy();
    });
    // what was cut off ends with an error too
    decoder.on('error', () => {});
    decoder.on('close', end);
    decoder.end(bytes);
  });
}

/** Text in the charset of a `Content-Type`; UTF-8 if it names none, or one that Node does not know. Whole characters. */
function decode(bytes: Buffer, contentType = ''): string {
  const [, charset = 'utf-8'] = /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(contentType) ?? [];
  try {
    return new TextDecoder(charset).decode(bytes, { stream: true });
  } catch {
    return new TextDecoder().decode(bytes, { stream: true });
  }
}

/** The beginning of a body as a person can read it. */
async function toText(bytes: Buffer, headers: OutboundResponse['headers']): Promise<string> {
  if (bytes.length === 0) return '';
  const plain = await decompressed(bytes, firstOf(headers['content-encoding']));
  return withoutControls(decode(plain.subarray(0, keepLimit), firstOf(headers['content-type'])));
}

/**
 * Reads the first 4 KiB of a response, for 2 s at most, and drops the rest. The body is read for the record alone: if it breaks off,
 * this is what had come. Never rejects.
 */
export async function readResponse({ status, headers, data }: OutboundResponse): Promise<RecordedResponse> {
  const retryAfter = headerText(headers['retry-after'], retryAfterLimit);
  const location = headerText(headers.location, locationLimit);
  const response = await toText(data.takeWhole() ?? (await readBeginning(data)), headers);
  return { status, ...(retryAfter && { retryAfter }), ...(location && { location }), response };
}

function readBeginning(body: ResponseBody): Promise<Buffer> {
  return new Promise((resolve) => {
    const bytes = Buffer.alloc(readLimit);
    let length = 0;
    const end = () => {
      clearTimeout(timer);
      resolve(bytes.subarray(0, length));
    };
    const drop = () => {
      body.destroy();
      end();
    };
    const timer = setTimeout(drop, readTime);
    body.flowTo({
      onChunk(chunk) {
        length += chunk.copy(bytes, length);
        if (length < readLimit) return true;
        drop();
        return false;
      },
      onEnd: end,
      onError: end,
    });
  });
}
