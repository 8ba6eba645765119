import type { OutboundCode } from '../../outbound/outbound-error.ts';
import type { ResponseBody } from '../../outbound/response-body.ts';

/** What is read of an answer before the rest is dropped. Bytes. */
const readLimit = 4_096;
/** What of it is kept. Bytes. */
const keepLimit = 1_024;

/** The beginning of an answer, and what cut it short, if anything did. */
export interface ResponseBeginning {
  readonly response: string;
  readonly error?: OutboundCode;
}

/** Text that can be stored and shown: whole UTF-8 characters, no control characters but tab and newline. */
function toText(bytes: Buffer): string {
  if (bytes.length === 0) return '';
  const text = new TextDecoder().decode(bytes.subarray(0, keepLimit), { stream: true });
  return text.replace(/[^\P{Cc}\t\n]/gu, '');
}

/** Reads the first 4 KiB of an answer and lets go of the rest. Never rejects. */
export async function readResponse(body: ResponseBody): Promise<ResponseBeginning> {
  const whole = body.takeWhole();
  return whole ? { response: toText(whole) } : readBeginning(body);
}

function readBeginning(body: ResponseBody): Promise<ResponseBeginning> {
  return new Promise((resolve) => {
    const bytes = Buffer.alloc(readLimit);
    let length = 0;
    const answer = () => ({ response: toText(bytes.subarray(0, length)) });
    body.flowTo({
      onChunk(chunk) {
        length += chunk.copy(bytes, length);
        if (length < readLimit) return true;
        body.destroy();
        resolve(answer());
        return false;
      },
      onEnd: () => resolve(answer()),
      onError: ({ code }) => resolve({ ...answer(), error: code }),
    });
  });
}
