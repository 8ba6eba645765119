import type { Span } from '../../http/operation.ts';
import type { CallEnding, OpenUsage, RequestedOutput, UsageRecord } from '../../options/options.ts';
import type { ModelBody } from '../request/model-body.ts';
import type { UsageMeter } from './usage-meter.ts';

/** Where the records of answered calls go; nothing here is waited for. */
export interface Metering {
  /** A call was sent to an upstream. */
  opened(usage: OpenUsage): void;
  /** The call was answered, and that has ended. */
  closed(record: UsageRecord): void;
  /** The call was not answered after all, or with an error: there is nothing to record. */
  dropped(id: string): void;
}

/** English text has about four bytes a token, and prompts stand in JSON, which is not all text. */
const promptBytesPerToken = 4;
/** Fewer than most text has, so that what was written is seldom estimated too low. */
const answerBytesPerToken = 3;
/** What a picture or file in a prompt is taken for; most providers count 85 to 1,500 for a picture. */
const tokensPerPicture = 1_500;
/** What a model may write while nothing of it is shown: reasoning, or an answer that is sent as a whole. */
const unseenTokensPerSecond = 100;
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

/** What a call was, for who says what it has used. */
export interface MeteredCall {
  readonly estimatedInput: number;
  readonly output: RequestedOutput;
  readonly ending: CallEnding;
  readonly answersImages: boolean;
  readonly answersVectors: boolean;
}

type Measured = Pick<UsageMeter, 'reported' | 'bytes' | 'textBytes' | 'images' | 'events' | 'silence'>;

/** What was seen of an answer; a stream has one token an event at least. Bytes of images and vectors say nothing. */
function tokensSeen({ events, textBytes, bytes }: Measured): number {
  return Math.max(events, Math.ceil((events > 0 ? textBytes : bytes) / answerBytesPerToken));
}

/**
 * The output of a call whose upstream did not say: what was seen of it; and where the client left, what may have been written
 * meanwhile that nobody saw, within the limit of the request.
 */
function estimateOutput(meter: Measured, { output, ending, answersImages, answersVectors }: MeteredCall): number {
  if (answersVectors) return 0;
  const seen = answersImages ? 0 : tokensSeen(meter);
  if (ending !== 'client_left') return seen;
  const unseen = Math.floor((meter.silence / 1_000) * unseenTokensPerSecond) * output.choices;
  const limit = (output.maxTokens ?? Number.POSITIVE_INFINITY) * output.choices;
  return Math.max(seen, Math.min(seen + unseen, limit));
}

/** What a call has used when it has ended. Pure. */
export function usageOf(
  meter: Measured,
  call: MeteredCall,
): Pick<UsageRecord, 'inputTokens' | 'cachedInputTokens' | 'outputTokens' | 'images' | 'estimated'> {
  const { reported } = meter;
  const { ending, answersImages, output } = call;
  // an upstream that was at work on images makes them, whether anybody is there to take them
  const images = answersImages && ending === 'client_left' ? Math.max(meter.images, output.choices) : meter.images;
  if (reported) {
    const { inputTokens, cachedInputTokens, outputTokens } = reported;
    return { inputTokens, cachedInputTokens, outputTokens, images, estimated: false };
  }
  // images are counted, and many providers give them no tokens
  if (images > 0 && ending === 'complete') {
    return { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, images, estimated: false };
  }
  return {
    inputTokens: call.estimatedInput,
    cachedInputTokens: 0,
    outputTokens: estimateOutput(meter, call),
    images,
    estimated: true,
  };
}
