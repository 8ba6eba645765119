import type { Span } from '../../http/operation.ts';
import type { ModelBody } from '../request/model-body.ts';

/** English text has about four bytes a token, and prompts stand in JSON, which is not all text. */
const promptBytesPerToken = 4;
/** What a picture or file in a prompt is taken for; most providers count 85 to 1,500 for a picture. */
const tokensPerPicture = 1_500;
const picture = Buffer.from('"image_url"');
/** Every data URL of a picture or file has it. A search for less than seven bytes takes many times as long at worst. */
const base64Mark = Buffer.from(';base64,');
/** What stands before it in a data URL that an upstream takes for one: elsewhere it is text as any other. */
const headOfDataUrl = /"(?:url|image_url|file_data)"\s{0,16}:\s{0,16}("data:[^"]{0,128})$/;
const longestHead = 256;
/** So many of each are looked for; no provider takes as many in one request. */
const mostMarks = 10_000;
const quote = 0x22;

/** The pictures and files of a prompt. */
interface Attachments {
  readonly count: number;
  readonly bytes: number;
}

/** How often it stands there, of very many no more than some. */
function occurrences(bytes: Buffer, needle: Buffer): number {
  let count = 0;
  let at = bytes.indexOf(needle);
  for (; at !== -1 && count < mostMarks; at = bytes.indexOf(needle, at + needle.length)) count += 1;
  return count;
}

/** The data URLs of a JSON text; only so many are looked for. */
function dataUrlsIn(bytes: Buffer): Attachments {
  let count = 0;
  let sum = 0;
  let at = bytes.indexOf(base64Mark);
  for (let found = 0; at !== -1 && found < mostMarks; found += 1) {
    const head = headOfDataUrl.exec(bytes.toString('latin1', Math.max(0, at - longestHead), at))?.[1];
    const end = head === undefined ? -1 : bytes.indexOf(quote, at);
    if (head !== undefined && end !== -1) {
      count += 1;
      sum += end + 1 - (at - head.length);
    }
    at = bytes.indexOf(base64Mark, Math.max(end, at + base64Mark.length));
  }
  return { count, bytes: sum };
}

/** Those of a JSON text, pictures that are somewhere else included. */
function attachmentsIn(bytes: Buffer): Attachments {
  const dataUrls = dataUrlsIn(bytes);
  // a part with a picture has that word twice: as its type and as a key
  return { ...dataUrls, count: Math.max(dataUrls.count, Math.ceil(occurrences(bytes, picture) / 2)) };
}

function attachmentsOf(files: readonly Span[]): Attachments {
  return { count: files.length, bytes: files.reduce((sum, { start, end }) => sum + end - start, 0) };
}

/**
 * What a prompt has used when nobody says: its bytes by four, the tokens that it lists as numbers if those are more, and
 * 1,500 for each picture or file in place of its bytes. Pure.
 */
export function estimateInput({
  bytes,
  listedTokens,
  files,
}: Pick<ModelBody, 'bytes' | 'listedTokens' | 'files'>): number {
  const attachments = files ? attachmentsOf(files) : attachmentsIn(bytes);
  const text = bytes.length - attachments.bytes;
  return Math.max(listedTokens, Math.ceil(text / promptBytesPerToken)) + attachments.count * tokensPerPicture;
}
