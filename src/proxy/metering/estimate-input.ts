import type { ByteRange } from '../../http/operation.ts';
import type { ModelBody } from '../request/model-body.ts';

/** English text has about four bytes per token, and a prompt is JSON, which is not all text. */
const promptBytesPerToken = 4;
/** The estimate for a picture or file in a prompt; most providers count 85 to 1,500 tokens for a picture. */
const tokensPerPicture = 1_500;
const picture = Buffer.from('"image_url"');
/** Part of every data URL of a picture or file. A search for fewer than seven bytes can take many times as long. */
const base64Mark = Buffer.from(';base64,');
/** What precedes it where an upstream reads a data URL: anywhere else it is plain text. */
const headOfDataUrl = /"(?:url|image_url|file_data)"\s{0,16}:\s{0,16}("data:[^"]{0,128})$/;
const longestHead = 256;
/** The most of each that are searched for; no provider accepts as many in one request. */
const mostMarks = 10_000;
const quote = 0x22;

/** The pictures and files of a prompt. */
interface Attachments {
  readonly count: number;
  readonly bytes: number;
}

/** How often the needle occurs, up to a bound. */
function occurrences(bytes: Buffer, needle: Buffer): number {
  let count = 0;
  let at = bytes.indexOf(needle);
  for (; at !== -1 && count < mostMarks; at = bytes.indexOf(needle, at + needle.length)) count += 1;
  return count;
}

/** The data URLs of a JSON text, up to a bound. */
function dataUrlsIn(bytes: Buffer): Attachments {
  let count = 0;
  let sum = 0;
  let at = bytes.indexOf(base64Mark);
  for (let marks = 0; at !== -1 && marks < mostMarks; marks += 1) {
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

/** The attachments of a JSON text, including pictures given by their address. */
function attachmentsIn(bytes: Buffer, pictures: number | undefined): Attachments {
  const dataUrls = dataUrlsIn(bytes);
  // a part with a picture has this word twice: as its type and as a key
  const named = pictures ?? Math.ceil(occurrences(bytes, picture) / 2);
  return { ...dataUrls, count: Math.max(dataUrls.count, named) };
}

function attachmentsOf(files: readonly ByteRange[]): Attachments {
  return { count: files.length, bytes: files.reduce((sum, { start, end }) => sum + end - start, 0) };
}

/**
 * The estimated tokens of a prompt: its bytes divided by four, or the tokens that it lists as numbers if they are more, plus
 * 1,500 for each picture or file in place of its bytes. Pure.
 */
export function estimateInput({
  bytes,
  listedTokens,
  files,
  pictures,
}: Pick<ModelBody, 'bytes' | 'listedTokens' | 'files' | 'pictures'>): number {
  const attachments = files ? attachmentsOf(files) : attachmentsIn(bytes, pictures);
  const text = bytes.length - attachments.bytes;
  return Math.max(listedTokens, Math.ceil(text / promptBytesPerToken)) + attachments.count * tokensPerPicture;
}
