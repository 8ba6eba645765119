import type { ApiRequest, ByteRange } from '../../http/operation.ts';
import { type ModelBody, readModelBody } from './model-body.ts';
import { readMultipartBody } from './multipart-body.ts';
import { shortValue } from './short-value.ts';

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

/** Reads what the relay needs of a request for speech. Pure. @throws GatewayError `invalid_value` */
export function readSpeechBody({ rawBody, fields }: ApiRequest): ModelBody {
  const input = fields.get('input');
  const body = readModelBody(rawBody, fields);
  return {
    ...body,
    stream: shortValue(rawBody, fields.get('stream_format')) === 'sse',
    output: { ...body.output, characters: input ? charactersIn(rawBody, input) : 0 },
  };
}

/** Reads what the relay needs of a form with a recording. Pure. */
export function readRecordingBody(form: NonNullable<ApiRequest['form']>): ModelBody {
  const body = readMultipartBody(form);
  const files = body.files ?? [];
  const seconds = files.reduce((sum, { start, end }) => sum + estimateSeconds(form.bytes.subarray(start, end)), 0);
  return { ...body, output: { choices: 1, maxTokens: undefined, seconds } };
}
