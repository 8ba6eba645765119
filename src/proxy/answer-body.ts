import type { Transform } from 'node:stream';
import { createDecoder, growsTooMuch } from '../outbound/content-decoder.ts';
import type { CallDeadline } from '../outbound/deadline.ts';
import { type OutboundResponse, ResponseBody } from '../outbound/exchange.ts';
import { classify, type OutboundError, outboundError } from '../outbound/outbound-error.ts';
import { isEncoded } from './headers.ts';

/**
 * A response with its body decompressed, for an upstream that compresses although it was asked not to. A response in an encoding
 * that Node does not know stays as it is.
 */
export function decoded(response: OutboundResponse): OutboundResponse {
  if (!isEncoded(response.headers)) return response;
  const decoder = createDecoder(response.headers['content-encoding'], { chunkSize: 16 * 1024 });
  if (!decoder) return response;
  const { 'content-encoding': _, 'content-length': __, ...headers } = response.headers;
  // compressed data says itself where it ends, as chunks do
  return {
    ...response,
    headers: { ...headers, 'transfer-encoding': 'chunked' },
    data: decodedBody(response.data, decoder),
  };
}

/** A body that is decompressed as it comes: what a chunk holds is passed on at once; without a sink, and with one that is full, some 64 KB wait. */
function decodedBody(source: ResponseBody, decoder: Transform): ResponseBody {
  let received = 0;
  let length = 0;
  /** What ended the source, if it did not end well. */
  let failure: OutboundError | undefined;
  const drop = (): void => {
    source.destroy();
    decoder.destroy();
  };
  const body = new ResponseBody({ pause: () => decoder.pause(), resume: () => decoder.resume(), abort: drop });
  const end = (outcome: 'end' | OutboundError): void => {
    drop();
    body.settle(outcome);
  };
  decoder.on('data', (chunk: Buffer) => {
    length += chunk.length;
    try {
      if (growsTooMuch(received, length)) throw outboundError('invalid_response');
      body.push(chunk);
    } catch (error) {
      end(classify(error));
    }
  });
  // stays: an error that no caller waits for must not end the process
  decoder.on('error', (cause) => end(failure ?? outboundError('invalid_response', cause)));
  decoder.on('end', () => end(failure ?? 'end'));
  decoder.on('drain', () => source.resume());
  source.flowTo({
    onChunk(chunk) {
      received += chunk.length;
      return decoder.writable ? decoder.write(chunk) : true;
    },
    onEnd: () => decoder.end(),
    onError(error) {
      failure = error;
      // what has come before is passed on first
      decoder.end();
    },
  });
  return body;
}

/** How long a body is peeked at. */
export interface PeekLimits {
  /** Of the call: armed while the body is peeked at. */
  readonly deadline: Pick<CallDeadline, 'arm' | 'reset' | 'disarm'>;
  /** Milliseconds. */
  readonly betweenChunks: number;
  /** Milliseconds. @default no limit but that of the call */
  readonly maxWait?: number;
}

/**
 * Looks at the beginning of a body that is read afterwards, until `decide` returns something else than `undefined`, and resolves to that. Resolves
 * to `undefined` when the body ends or breaks off before, or takes too long.
 */
export function peek<T>(
  body: ResponseBody,
  decide: (start: ResponseBody) => T | undefined,
  { deadline, betweenChunks, maxWait }: PeekLimits,
): Promise<T | undefined> {
  return new Promise((resolve) => {
    let isDecided = false;
    let timer: NodeJS.Timeout | undefined;
    const settle = (value: T | undefined): void => {
      isDecided = true;
      body.onArrival(undefined);
      clearTimeout(timer);
      deadline.disarm();
      resolve(value);
    };
    deadline.arm(betweenChunks);
    body.onArrival(() => {
      deadline.reset();
      const decided = decide(body);
      if (decided !== undefined || body.outcome !== null) settle(decided);
    });
    // a short answer has come whole with its head
    if (!isDecided && maxWait !== undefined) timer = setTimeout(() => settle(undefined), maxWait);
  });
}

/** The most that is read to see whether a body is a stream. Bytes. */
const peekLimit = 1024;
/** What a line of a stream of events begins with (WHATWG HTML, 9.2.6). */
const lineStarts = ['data:', 'event:', 'id:', 'retry:', ':'];

/** Whether a body begins like server-sent events; `undefined` when more of it has to be seen. */
export function beginsAsEvents(bytes: Buffer): boolean | undefined {
  // a byte order mark and blank lines may come first
  const text = bytes.toString('latin1', 0, peekLimit).replace(/^(?:\u00ef\u00bb\u00bf)?[\r\n]*/, '');
  if (lineStarts.some((start) => text.startsWith(start))) return true;
  const mayBegin = text === '\u00ef' || text === '\u00ef\u00bb' || lineStarts.some((start) => start.startsWith(text));
  return mayBegin && bytes.length < peekLimit ? undefined : false;
}

/**
 * Whether an answer is one JSON value, by its first chunk, and otherwise events; `undefined` for nothing but white space, which a provider
 * may send first to keep a long call's connection open.
 */
export function beginsAsJson(chunk: Buffer): boolean | undefined {
  const first = /\S/.exec(chunk.toString('latin1'))?.[0];
  return first === undefined ? undefined : first === '{' || first === '[';
}

/** Reads an answer chunk by chunk. */
interface ChunkReader {
  read(chunk: Buffer): void;
}

/** Reads an answer by one of two readers, which is made when its beginning says whether it is JSON or events. */
export function createBodyReader(ofJson: () => ChunkReader, ofEvents: () => ChunkReader): ChunkReader {
  let reader: ChunkReader | undefined;
  return {
    read(chunk) {
      if (!reader) {
        const isJson = beginsAsJson(chunk);
        if (isJson === undefined) return;
        reader = isJson ? ofJson() : ofEvents();
      }
      reader.read(chunk);
    },
  };
}

/**
 * Holds a body until it is whole or exceeds the limit, so that the gateway can still answer with an error when it breaks off or
 * is invalid. Rejects with the body's OutboundError.
 * @param onProgress called for every chunk
 * @returns `whole`: whether the bytes are all of it; if not, the rest waits in the body
 */
export function collect(
  body: ResponseBody,
  limit: number,
  onProgress?: () => void,
): Promise<{ readonly bytes: Buffer; readonly whole: boolean }> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let length = 0;
    const joined = (): Buffer => (parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts));
    body.flowTo({
      onChunk(chunk) {
        onProgress?.();
        parts.push(chunk);
        length += chunk.length;
        if (length <= limit) return true;
        body.hold();
        resolve({ bytes: joined(), whole: false });
        return false;
      },
      onEnd: () => resolve({ bytes: joined(), whole: true }),
      onError: reject,
    });
  });
}

export function isJson(bytes: Buffer): boolean {
  try {
    // each byte as one character: bytes beyond ASCII occur only inside strings
    JSON.parse(bytes.toString('latin1'));
    return true;
  } catch {
    return false;
  }
}

/** What the answers of an endpoint have at least. One without it says nothing, and is no success, whatever its status. */
export interface LeastResult {
  /** A body has one of these members, with something in it. @default it is an object or a list, with something else in it than a `detail` */
  readonly members?: readonly string[];
  /** The same in the text of an event: inside a JSON string its quotes would be escaped. */
  readonly inEvent: RegExp;
}

/** An event's JSON can continue in its next `data:` line. */
const gap = String.raw`(?:\s|data:)*`;

/** @param inEvents what an event of its streams may have in place of these. @default nothing else */
export function leastResult(members: readonly string[], inEvents: readonly string[] = []): LeastResult {
  const names = [...members, ...inEvents].join('|');
  const something = String.raw`(?!null|false|\[\s*\]|\{\s*\})\S`;
  return { members, inEvent: new RegExp(`"(?:${names})"${gap}:${gap}${something}`) };
}

/** Of endpoints whose answers nobody has described: an object or a list, with something else in it than a `detail`, or an event with any data. */
export const anyResult: LeastResult = { inEvent: /data:[ \t]*(?!null|false|\[\s*\]|\{\s*\}|\[DONE\])\S/ };

/** Whether a value is an object of JSON, and no list. */
export function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** JSON from outside, as far as it is read. */
export type Fields = Readonly<Record<string, unknown>>;

/** Any value of JSON; `undefined` where it is none. */
export function parsedValue(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** An object or a list in JSON; `undefined` for anything else. */
export function parsed(text: string): Fields | undefined {
  const value = parsedValue(text);
  return typeof value === 'object' && value !== null ? (value as Fields) : undefined;
}

/** Some providers have their result one level deeper. */
const wrappers = ['data', 'output'] as const;

/** Whether a member has something in it. A text may be empty: nobody speaks in a recording. */
function isFilled(value: unknown): boolean {
  if (value === undefined || value === null || value === false) return false;
  if (Array.isArray(value)) return value.length > 0;
  return typeof value !== 'object' || Object.keys(value).length > 0;
}

/** Whether a body is what servers that are made with FastAPI answer as an error, whatever its status: a `detail` and nothing else. */
const isDetailAlone = (body: object): boolean => Object.keys(body).join() === 'detail';

/** Whether a body, parsed, has a result, or is a list of some, as llama.cpp answers without `/v1`. */
export function hasLeast(body: unknown, { members }: Pick<LeastResult, 'members'>): boolean {
  if (members === undefined) return typeof body === 'object' && isFilled(body) && !isDetailAlone(body as object);
  if (Array.isArray(body)) return body.some((item) => isObject(item) && hasLeast(item, { members }));
  if (!isObject(body)) return false;
  if (members.some((name) => isFilled(body[name]))) return true;
  return wrappers.map((name) => body[name]).some((value) => isObject(value) && isFilled(value));
}

/** What is kept of the bytes before, to find what two chunks share. Characters. */
const tailLength = 64;

/** Looks for a result in a stream, however it is split into chunks. */
export class ResultSearch {
  readonly #pattern: RegExp;
  #tail = '';
  hasFound = false;

  constructor({ inEvent }: LeastResult) {
    this.#pattern = inEvent;
  }

  read(chunk: Buffer): void {
    if (this.hasFound) return;
    const text = this.#tail + chunk.toString('latin1');
    this.hasFound = this.#pattern.test(text);
    this.#tail = text.slice(-tailLength);
  }
}

/** What an upstream says a call has used. */
export interface ReportedUsage {
  /** Cached ones included. */
  readonly inputTokens: number;
  /** The input tokens that the provider read from its cache. */
  readonly cachedInputTokens: number;
  /** The input tokens that the provider wrote into its cache; absent where there were none. */
  readonly cacheWriteTokens?: number;
  /** Those of these that it keeps for an hour; absent where there were none. */
  readonly cacheWriteHourTokens?: number;
  /** Reasoning included. */
  readonly outputTokens: number;
  /** The output tokens that were reasoning; absent where there were none. */
  readonly reasoningTokens?: number;
  /** The input tokens that were audio, cached ones included, and those of them that were cached; absent where there were none. */
  readonly inputAudioTokens?: number;
  readonly cachedInputAudioTokens?: number;
  /** The output tokens that were audio; absent where there were none. */
  readonly outputAudioTokens?: number;
  /** Searches of the web, where it counts them; absent where there were none. */
  readonly webSearchCalls?: number;
  /** Of audio, where it counts seconds and no tokens. */
  readonly seconds?: number;
}

/** Reads what an answer says of its usage, and whether it has ended, chunk by chunk. */
export interface AnswerReader extends ChunkReader {
  /** `undefined` until a valid usage has come. */
  readonly reported: ReportedUsage | undefined;
  /** The units that it has. @default none is known */
  readonly units?: number | undefined;
  /** Whether only its last event may still be missing, or the end of its body. Before that, what is reported of the output is too little. */
  readonly isEnded: boolean;
}

/** More tokens than any model reads or writes in one call: a larger count is an upstream's error. */
const mostTokens = 100_000_000;

/** @returns `undefined` when there is none; `NaN` for anything that is not a count */
export function usageCount(usage: Readonly<Record<string, unknown>>, ...names: readonly string[]): number | undefined {
  const value = names.map((name) => usage[name]).find((found) => found !== undefined && found !== null);
  if (value === undefined) return undefined;
  const isCount = Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= mostTokens;
  // + 0 turns -0 into 0
  return isCount ? (value as number) + 0 : Number.NaN;
}

/** A count among the details of a usage; 0 where there is none. */
export function detailIn(details: unknown, name: string): number {
  return (isObject(details) && usageCount(details, name)) || 0;
}

/** More seconds than any recording of one call has: 11 days. */
const mostSeconds = 1_000_000;

function durationFrom({ seconds }: Readonly<Record<string, unknown>>): ReportedUsage | undefined {
  if (typeof seconds !== 'number' || !(seconds >= 0 && seconds <= mostSeconds)) return undefined;
  // a thousandth is exact enough, and keeps sums short
  return { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, seconds: Math.round(seconds * 1_000) / 1_000 };
}

/**
 * Reads a `usage` object, under the names of chat completions, of images, or of audio that is counted by its `seconds`. Counts must be whole numbers, 0 to 100 million;
 * otherwise the whole object is ignored, and the usage is estimated. Where the total is more than input and output, as it is
 * where a provider leaves reasoning out of the output, the difference counts as output.
 */
export function usageFrom(usage: unknown): ReportedUsage | undefined {
  if (!isObject(usage)) return undefined;
  if (usage.type === 'duration') return durationFrom(usage);
  const inputTokens = usageCount(usage, 'prompt_tokens', 'input_tokens');
  const total = usageCount(usage, 'total_tokens');
  const beyondInput = total === undefined || inputTokens === undefined ? undefined : Math.max(0, total - inputTokens);
  const reportedOutput = usageCount(usage, 'completion_tokens', 'output_tokens') ?? beyondInput;
  if (inputTokens === undefined || reportedOutput === undefined) return undefined;
  const outputTokens = Math.max(reportedOutput, beyondInput ?? 0);
  if (Number.isNaN(inputTokens) || Number.isNaN(outputTokens)) return undefined;
  // realtime responses have their details under names in the singular
  const inputDetails = usage.prompt_tokens_details ?? usage.input_tokens_details ?? usage.input_token_details;
  const outputDetails = usage.completion_tokens_details ?? usage.output_tokens_details ?? usage.output_token_details;
  // DeepSeek and Moonshot have it beside the details, or in place of them
  const cached = Math.max(
    detailIn(inputDetails, 'cached_tokens'),
    detailIn(usage, 'prompt_cache_hit_tokens'),
    detailIn(usage, 'cached_tokens'),
  );
  const reasoning = detailIn(outputDetails, 'reasoning_tokens');
  const cachedInputTokens = Math.min(inputTokens, cached);
  // OpenRouter and Perplexity
  const searches = Math.max(
    detailIn(usage.server_tool_use, 'web_search_requests'),
    detailIn(usage, 'num_search_queries'),
  );
  return {
    inputTokens,
    cachedInputTokens,
    outputTokens,
    ...(reasoning > 0 && { reasoningTokens: Math.min(outputTokens, reasoning) }),
    ...(searches > 0 && { webSearchCalls: searches }),
    ...audioIn({ inputTokens, cachedInputTokens, outputTokens }, inputDetails, outputDetails),
  };
}

/** The tokens of audio among those of a usage, as far as its details tell them apart. */
function audioIn({ inputTokens, cachedInputTokens, outputTokens }: ReportedUsage, input: unknown, output: unknown) {
  const inputAudio = Math.min(inputTokens, detailIn(input, 'audio_tokens'));
  const cachedDetails = isObject(input) ? input.cached_tokens_details : undefined;
  const said = Math.min(inputAudio, cachedInputTokens, detailIn(cachedDetails, 'audio_tokens'));
  // cached ones that cannot be text are audio
  const cachedAudio = Math.max(said, inputAudio + cachedInputTokens - inputTokens);
  const outputAudio = Math.min(outputTokens, detailIn(output, 'audio_tokens'));
  return {
    ...(inputAudio > 0 && { inputAudioTokens: inputAudio }),
    ...(cachedAudio > 0 && { cachedInputAudioTokens: cachedAudio }),
    ...(outputAudio > 0 && { outputAudioTokens: outputAudio }),
  };
}
