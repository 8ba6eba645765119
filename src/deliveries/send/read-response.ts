import type { ResponseBody } from '../../outbound/response-body.ts';

/** How much of a response is read before the rest is dropped. Bytes. */
const readLimit = 4_096;
/** How much of it is stored. Bytes. */
const keepLimit = 1_024;
/** How long a body is read after its head. Milliseconds. */
const readTime = 2_000;

/** Text that can be stored and shown: whole UTF-8 characters, and no control characters except tab and newline. */
function toText(bytes: Buffer): string {
  if (bytes.length === 0) return '';
  const text = new TextDecoder().decode(bytes.subarray(0, keepLimit), { stream: true });
  return text.replace(/[^\P{Cc}\t\n]/gu, '');
}

/**
 * Reads the first 4 KiB of a response, for 2 s at most, and drops the rest. It is read for the record alone: if the body breaks off,
 * this is what had come. Never rejects.
 */
export async function readResponseBeginning(body: ResponseBody): Promise<string> {
  return toText(body.takeWhole() ?? (await readBeginning(body)));
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
