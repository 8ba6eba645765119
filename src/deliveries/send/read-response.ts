import type { OutboundResponse } from '../../outbound/exchange.ts';
import type { ResponseBody } from '../../outbound/response-body.ts';

/** How much of a response is read before the rest is dropped. Bytes. */
const readLimit = 4_096;
/** How much of it is stored. Bytes. */
const keepLimit = 1_024;
/** How long a body is read after its head. Milliseconds. */
const readTime = 2_000;
/** How much of a header is stored. Characters. */
const retryAfterLimit = 100;
const locationLimit = 2_048;

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

/** Whole UTF-8 characters. */
function toText(bytes: Buffer): string {
  if (bytes.length === 0) return '';
  return withoutControls(new TextDecoder().decode(bytes.subarray(0, keepLimit), { stream: true }));
}

/** The beginning of a header's first value. */
function headerText(value: string | string[] | undefined, limit: number): string | undefined {
  const first = typeof value === 'object' ? value[0] : value;
  return first && withoutControls(first).slice(0, limit);
}

/**
 * Reads the first 4 KiB of a response, for 2 s at most, and drops the rest. The body is read for the record alone: if it breaks off,
 * this is what had come. Never rejects.
 */
export async function readResponse({ status, headers, data }: OutboundResponse): Promise<RecordedResponse> {
  const retryAfter = headerText(headers['retry-after'], retryAfterLimit);
  const location = headerText(headers.location, locationLimit);
  const response = toText(data.takeWhole() ?? (await readBeginning(data)));
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
