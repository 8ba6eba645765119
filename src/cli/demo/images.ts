import { createHash } from 'node:crypto';
import { crc32, deflateSync } from 'node:zlib';
import { checkModel, DemoError, wordsOf } from './chat.ts';

interface ImageRequest {
  readonly model?: unknown;
  readonly prompt?: unknown;
  readonly n?: unknown;
  readonly response_format?: unknown;
}

/** Of a picture. Pixels. */
const side = 16;
const maxImages = 10;
const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const framed = Buffer.alloc(body.length + 8);
  framed.writeUInt32BE(data.length, 0);
  body.copy(framed, 4);
  framed.writeUInt32BE(crc32(body), body.length + 4);
  return framed;
}

/** A square PNG of one colour (W3C PNG, third edition). */
function plainPng(rgb: Buffer): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(side, 0);
  header.writeUInt32BE(side, 4);
  header.set([8, 2], 8); // eight bits a channel, RGB
  const row = Buffer.concat([Buffer.from([0]), ...Array.from({ length: side }, () => rgb)]);
  const pixels = deflateSync(Buffer.concat(Array.from({ length: side }, () => row)));
  return Buffer.concat([signature, chunk('IHDR', header), chunk('IDAT', pixels), chunk('IEND', Buffer.alloc(0))]);
}

/**
 * The answer to an image request: small squares whose colour follows from the prompt.
 * @throws DemoError for another model, no prompt, or too many images
 */
export function images(request: ImageRequest): object {
  if (request.model !== undefined) checkModel(request.model);
  if (typeof request.prompt !== 'string' || request.prompt === '') {
    throw new DemoError('invalid_value', "'prompt' must be a string that is not empty", 'prompt');
  }
  const n = Number(request.n ?? 1);
  if (!Number.isInteger(n) || n < 1 || n > maxImages)
    throw new DemoError('invalid_value', `'n' must be 1 to ${maxImages}`, 'n');
  const data = Array.from({ length: n }, (_, i) => {
    const rgb = createHash('sha256').update(`${i}\n${request.prompt}`).digest().subarray(0, 3);
    const base64 = plainPng(rgb).toString('base64');
    const revised_prompt = 'A plain square: this demo upstream draws nothing';
    return request.response_format === 'url'
      ? { url: `data:image/png;base64,${base64}`, revised_prompt }
      : { b64_json: base64, revised_prompt };
  });
  const input_tokens = wordsOf(request.prompt).length;
  const usage = { input_tokens, output_tokens: n, total_tokens: input_tokens + n };
  const details = { input_tokens_details: { text_tokens: input_tokens, image_tokens: 0 } };
  return { created: Math.floor(Date.now() / 1000), data, usage: { ...usage, ...details } };
}
