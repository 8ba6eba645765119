import type { OutboundCode } from '../../outbound/outbound-error.ts';
import type { ResponseBody } from '../../outbound/response-body.ts';

/** How much of a response is read before the rest is dropped. Bytes. */
const readLimit = 4_096;
/** How much of it is stored. Bytes. */
const keepLimit = 1_024;

/** The beginning of a response, and the error that cut it short, if there was one. */
export interface ResponseBeginning {
  readonly response: string;
  readonly error?: OutboundCode;
}

/** Text that can be stored and shown: whole UTF-8 characters, and no control characters except tab and newline. */
function toText(bytes: Buffer): string {
  if (bytes.length === 0) return '';
  const text = new TextDecoder().decode(bytes.subarray(0, keepLimit), { stream: true });
  return text.replace(/[^\P{Cc}\t\n]/gu, '');
}

/** Reads the first 4 KiB of a response and drops the rest. Never rejects. */
export async function readResponseBeginning(body: ResponseBody): Promise<ResponseBeginning> {
  const whole = body.takeWhole();
  return whole ? { response: toText(whole) } : readBeginning(body);
}

function readBeginning(body: ResponseBody): Promise<ResponseBeginning> {
  return new Promise((resolve) => {
    const bytes = Buffer.alloc(readLimit);
    let length = 0;
    const beginning = () => ({ response: toText(bytes.subarray(0, length)) });
    body.flowTo({
      onChunk(chunk) {
        length += chunk.copy(bytes, length);
        if (length < readLimit) return true;
        body.destroy();
        resolve(beginning());
        return false;
      },
      onEnd: () => resolve(beginning()),
      onError: ({ code }) => resolve({ ...beginning(), error: code }),
    });
  });
}
