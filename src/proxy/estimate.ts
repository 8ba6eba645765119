import type { ByteRange } from '../http/operation.ts';
import type { ModelBody } from './model-body.ts';

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

/**
 * The estimated tokens of a prompt: its bytes divided by four, or the tokens that it lists as numbers if they are more, plus
 * 1,500 for each picture or file in place of its bytes. Pure.
 */
export function estimateInput(
  bytes: Buffer,
  { listedTokens, files, pictures }: Pick<ModelBody, 'listedTokens' | 'files' | 'pictures'>,
): number {
  const attachments = files ? attachmentsOf(files) : attachmentsIn(bytes, pictures);
  const text = bytes.length - attachments.bytes;
  return Math.max(listedTokens, Math.ceil(text / promptBytesPerToken)) + attachments.count * tokensPerPicture;
}

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

const backslash = 0x5c;
const letterU = 0x75;

/** Which half of a surrogate pair an escape is, if any: `\ud800` to `\udbff` is the first, `\udc00` to `\udfff` the second. */
function surrogateAt(bytes: Buffer, at: number): 'first' | 'second' | undefined {
  if (bytes[at] !== letterU) return undefined;
  const digits = bytes.toString('latin1', at + 1, at + 3);
  if (/^d[89ab]/i.test(digits)) return 'first';
  return /^d[c-f]/i.test(digits) ? 'second' : undefined;
}

/** The characters (code points) of a JSON string, without decoding it. Pure. */
export function charactersIn(bytes: Buffer, { start, end }: ByteRange): number {
  let count = 0;
  let last: ReturnType<typeof surrogateAt>;
  for (let i = start + 1; i < end - 1; i += 1) {
    const byte = bytes[i] as number;
    const surrogate = byte === backslash ? surrogateAt(bytes, i + 1) : undefined;
    const isSecondHalf = surrogate === 'second' && last === 'first';
    const isContinuation = (byte & 0xc0) === 0x80;
    if (!isSecondHalf && !isContinuation) count += 1;
    if (byte === backslash) i += bytes[i + 1] === letterU ? 5 : 1;
    last = isSecondHalf ? undefined : surrogate;
  }
  return count;
}

/** What is assumed of a recording whose format does not say it: 64 kbit/s. */
const bytesPerSecond = 8_000;
const wavHeader = 44;
/** 8 channels of 32 bits at 192 kHz. */
const mostPerSecond = 8 * 4 * 192_000;

/** The bytes of a second of a WAV file by its header; `undefined` for any other. */
function wavRate(file: Buffer): number | undefined {
  const isWav = file.length > wavHeader && /^RIFF....WAVEfmt $/s.test(file.toString('latin1', 0, 16));
  if (!isWav) return undefined;
  const [format, channels, blockAlign, bits] = [20, 22, 32, 34].map((at) => file.readUInt16LE(at)) as [
    number,
    number,
    number,
    number,
  ];
  // only of samples that are not compressed does the header say what a second takes, and only where it fits itself
  const isPlain = (format === 1 || format === 3) && blockAlign === (channels * bits) / 8;
  const rate = file.readUInt32LE(24) * blockAlign;
  return isPlain && rate > 0 && rate <= mostPerSecond ? rate : undefined;
}

/** The estimated length of a recording. Seconds. Pure. */
export function estimateSeconds(file: Buffer): number {
  return Math.ceil(file.length / (wavRate(file) ?? bytesPerSecond));
}
