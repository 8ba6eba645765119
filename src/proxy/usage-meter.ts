import { searchedKey, ValueReader } from '../http/json/search.ts';
import { newId } from '../ids.ts';
import type { CallEnding, OpenUsage, RequestedOutput, UsageRecord } from '../options/options.ts';
import type { RequestedCall } from './admission.ts';
import { type AnswerReader, isObject, type ReportedUsage, usageFrom } from './answer-body.ts';
import type { Endpoint } from './endpoint.ts';
import { imageModel, noToolUse, ToolCalls, type ToolUse, webCitation } from './hosted-tools.ts';
import type { ErrorInside } from './inspect-answer.ts';

/** The most that is held of an incomplete usage object, and of an incomplete piece of text. Bytes. */
const usageLimit = 16 * 1024;
const textLimit = 64 * 1024;
const reasonLimit = 1024;
const usageKey = searchedKey('usage', '{');
const finishKey = searchedKey('finish_reason', '"');
const choicesKey = searchedKey('choices', '[', false);
const textKeys = { delta: searchedKey('delta', '{"'), text: searchedKey('text', '{"') };
/** Most images come as bytes, some as an address; of each string an image in the answer has at most one. */
const imageMarks = { whole: ['"b64_json"', '"url"'], stream: ['.completed"'] } as const;
/** How much of an answer's beginning is kept. Bytes. */
const beginningLimit = 1024;
/** Inside a JSON string the quotes would be escaped. */
const durationValue = /"duration":\s*"?(\d{1,6}(?:\.\d{1,9})?)(?=[\s",}])/;
/** A shorter silence says nothing about what the model does. Milliseconds. */
const shortSilence = 1_000;

type MeteredEndpoint = Pick<Endpoint, 'textKey' | 'answersImages' | 'answersResponse' | 'createReader' | 'unit'> &
  Partial<Pick<Endpoint, 'streamsUsage' | 'isUnmeasured'>>;

/** Measures the usage of an answer while it is sent. */
export class UsageMeter {
  /** Reads usage and end where the endpoint has its own way to say them. */
  readonly #own: AnswerReader | undefined;
  readonly #usage: ValueReader;
  #reported: ReportedUsage | undefined;
  readonly #finished: ValueReader;
  readonly #text: ValueReader | undefined;
  readonly #images: readonly Occurrences[];
  readonly #tools: ToolCalls | undefined;
  /** What a chat says of what it has found in the web. */
  readonly #citations: Occurrences | undefined;
  readonly #choices: number;
  /** Whether its text counts, as in streams. */
  readonly readsText: boolean;
  /** Whether nothing follows a usage. */
  readonly #reportsLast: boolean;
  /** The indexes of choices that have ended; of a body that is no stream, one for each that has. */
  readonly #ended = new Set<unknown>();
  /** The indexes of all choices, where a stream has several. */
  readonly #begun = new Set<unknown>();
  #quietSince = performance.now();
  #silence = 0;
  #textBytes = 0;
  readonly #keepsBeginning: boolean;
  #beginning = '';
  bytes = 0;
  /** Whether a `usage` in the answer is the upstream's. */
  trustsUsage = true;
  /** Events of a stream, comments aside. */
  events = 0;
  /** What the answer says of its failure, if it has failed: then nothing is charged. */
  failure: Pick<ErrorInside, 'blamesRequest'> | undefined;

  /** @param output what is to come */
  constructor(
    { textKey, answersImages, answersResponse, createReader, unit, streamsUsage, isUnmeasured }: MeteredEndpoint,
    stream: boolean,
    { choices, tools }: RequestedOutput,
  ) {
    this.#own = createReader?.();
    this.#reportsLast = !(stream && streamsUsage);
    if (answersResponse) this.#tools = new ToolCalls();
    else if (tools?.webSearchCalls) this.#citations = new Occurrences(webCitation);
    this.#keepsBeginning = unit === 'seconds';
    this.#choices = choices;
    this.readsText = stream;
    const marks = stream ? imageMarks.stream : imageMarks.whole;
    this.#images = answersImages ? marks.map((mark) => new Occurrences(mark)) : [];
    this.#usage = new ValueReader(usageKey, usageLimit, (value) => {
      const usage = usageFrom(value);
      // the largest counts: repeated reports in a stream only grow, and another object of that name must not replace the real one by a smaller one
      if (usage && (!this.#reported || sizeOf(usage) >= sizeOf(this.#reported))) this.#reported = usage;
    });
    this.#finished =
      stream && choices > 1
        ? new ValueReader(choicesKey, textLimit, (value) => this.#readChoices(value))
        : new ValueReader(finishKey, reasonLimit, (value) => this.#readReason(value, stream ? 0 : this.#ended.size));
    // an upstream may stream whatever it was asked for
    if ((stream || isUnmeasured) && textKey !== undefined) {
      this.#text = new ValueReader(textKeys[textKey], textLimit, (value) => this.#wrote(value));
    }
  }

  /** The request has been sent to an upstream, which works on it from now on. */
  sent(): void {
    this.#quietSince = performance.now();
  }

  read(chunk: Buffer): void {
    this.bytes += chunk.length;
    if (this.#keepsBeginning && this.#beginning.length < beginningLimit) {
      this.#beginning += chunk.toString('latin1', 0, beginningLimit - this.#beginning.length);
    }
    if (this.#own) this.#own.read(chunk);
    else {
      this.#usage.read(chunk);
      this.#finished.read(chunk);
    }
    this.#text?.read(chunk);
    for (const images of this.#images) images.read(chunk);
    this.#tools?.read(chunk);
    this.#citations?.read(chunk);
  }

  /** Counts bytes in which nothing is looked for. */
  skip({ length }: Buffer): void {
    this.bytes += length;
  }

  /** What the upstream says was used; `undefined` until a valid usage has come. */
  get reported(): ReportedUsage | undefined {
    const reported = this.#own ? this.#own.reported : this.#reported;
    return this.trustsUsage ? reported : undefined;
  }

  /** Whether what is reported may leave out the end of the answer: some upstreams have a usage in each event of a stream, or in its first. */
  get reportsEarly(): boolean {
    return !(this.#own ? this.#own.isEnded : this.#reportsLast || this.isEnded);
  }

  /** Whether a usage that leaves out the end of an answer leaves out all of its output. */
  get reportsInputFirst(): boolean {
    return this.#own !== undefined;
  }

  /** How long a recording is by the answer's `duration`, which verbose transcriptions begin with. Seconds. */
  get duration(): number | undefined {
    const digits = durationValue.exec(this.#beginning)?.[1];
    return digits === undefined ? undefined : Number(digits);
  }

  get images(): number {
    return Math.max(0, ...this.#images.map(({ count }) => count));
  }

  /** What hosted tools have done: what the answer shows, or its usage says. */
  get tools(): ToolUse {
    if (this.#tools) return this.#tools.use;
    const searches = this.reported?.webSearchCalls ?? (this.#citations?.count ? 1 : 0);
    return searches > 0 ? { images: 0, webSearchCalls: searches } : noToolUse;
  }

  /** Bytes of the visible text, reasoning and tool calls included. */
  get textBytes(): number {
    return this.#text?.hasLost ? this.bytes : this.#textBytes;
  }

  /** What the answer says of its units. */
  get units(): number | undefined {
    return this.#own?.units;
  }

  /** Whether all answers that are to come have come, each choice with its `finish_reason`, so that only the usage may still be missing. */
  get isEnded(): boolean {
    if (this.#own) return this.#own.isEnded;
    if (this.#images.length > 0) return this.images >= this.#choices;
    // what was too large to be read may have been the end of some
    if (this.#finished.hasLost && this.#ended.size > 0) return true;
    return this.#ended.size >= Math.max(this.#choices, this.#begun.size);
  }

  /** How long the upstream has worked without output, counting silences of a second or more. Milliseconds. */
  get silence(): number {
    return this.#silence + this.#stretch();
  }

  /** @param index of the choice that ends */
  #readReason(reason: unknown, index: unknown): void {
    // some upstreams write '' until there is one
    if (typeof reason === 'string' && reason !== '') this.#ended.add(index);
  }

  /** Reads the choices of an event: an upstream may repeat the end of one. */
  #readChoices(choices: unknown): void {
    for (const choice of Array.isArray(choices) ? choices : []) {
      if (!isObject(choice)) continue;
      const { index = 0, finish_reason: reason } = choice;
      this.#begun.add(index);
      this.#readReason(reason, index);
    }
  }

  #stretch(): number {
    const stretch = performance.now() - this.#quietSince;
    return stretch >= shortSilence ? stretch : 0;
  }

  #wrote(value: unknown): void {
    const bytes = textBytes(value);
    if (bytes === 0) return;
    this.#textBytes += bytes;
    this.#silence += this.#stretch();
    this.#quietSince = performance.now();
  }
}

/** The keys of a delta that are not text of the model's: what it cites others have written, and a signature proves its thinking. */
const unwritten: ReadonlySet<string> = new Set(['role', 'id', 'type', 'citation', 'signature', 'stop_reason']);

/** No text lies deeper in a piece of an answer. */
const deepest = 32;

/** The bytes of all text in a piece of an answer: content, reasoning, tool calls, refusals. */
export function textBytes(value: unknown, depth = 0): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (typeof value !== 'object' || value === null || depth > deepest) return 0;
  let sum = 0;
  for (const [name, part] of Object.entries(value)) if (!unwritten.has(name)) sum += textBytes(part, depth + 1);
  return sum;
}

const sizeOf = ({ inputTokens, outputTokens, seconds = 0 }: ReportedUsage): number =>
  inputTokens + outputTokens + seconds;

/** Counts how often some bytes occur, however the stream is split into chunks. */
class Occurrences {
  readonly #needle: Buffer;
  #tail: Buffer = Buffer.alloc(0);
  count = 0;

  constructor(needle: string) {
    this.#needle = Buffer.from(needle);
  }

  read(chunk: Buffer): void {
    const bytes = Buffer.concat([this.#tail, chunk]);
    for (let at = bytes.indexOf(this.#needle); at !== -1; at = bytes.indexOf(this.#needle, at + 1)) this.count += 1;
    this.#tail = bytes.subarray(Math.max(0, bytes.length - this.#needle.length + 1));
  }
}

/** Where usage records go. The relay waits for none of it. */
export interface UsageRecorder {
  /** A call was sent to an upstream. */
  opened(usage: OpenUsage): void;
  /** The call was answered, and the answer has ended. */
  closed(record: UsageRecord): void;
  /** The call was not answered, or was answered with an error: there is nothing to record. */
  dropped(id: string): void;
}

/** The record of a call, before it is sent to an upstream. @param startedAt as `Date.now()` */
export function openRecord(
  { info, estimatedTokens, output }: RequestedCall,
  upstream: string,
  startedAt: number,
): OpenUsage {
  const { requestId, principal, endpoint, model } = info;
  const imageModels = output.tools?.imageModels;
  return {
    id: newId('use', startedAt),
    requestId,
    userId: principal.userId,
    keyId: principal.keyId ?? null,
    endpoint,
    model: model ?? null,
    upstream,
    inputTokens: estimatedTokens,
    seconds: output.seconds ?? 0,
    characters: output.characters ?? 0,
    ...(output.units !== undefined && { units: output.units }),
    ...(imageModels && { imageModels }),
    startedAt: new Date(startedAt),
  };
}

/** How a call ended, and when. */
type CallEnd = Pick<UsageRecord, 'upstream' | 'ending' | 'durationMs' | 'firstByteMs'>;

/** The same when it has ended. */
export function closedRecord(open: OpenUsage, used: Used, end: CallEnd): UsageRecord {
  const { id, requestId, userId, keyId, endpoint, model, startedAt } = open;
  return { id, requestId, userId, keyId, endpoint, model, startedAt, ...used, ...end };
}

/** Fewer than in most text, so that the estimate is seldom too low. */
export const answerBytesPerToken = 3;
/** How fast a model may write what is not visible yet: reasoning, or an answer that is sent as a whole. */
const unseenTokensPerSecond = 100;

/** So many tokens more than an upstream says are within what an estimate errs by. */
const fewTokens = 20;

/** What the usage of a call depends on, besides its answer. */
export interface MeteredCall {
  readonly estimatedInput: number;
  /** The models that hosted tools may have made images with. @default the one that tools take where they name none */
  readonly imageModels?: readonly string[] | undefined;
  readonly output: RequestedOutput;
  readonly ending: CallEnding;
  /** Whether the answer says that it has failed: then nothing is charged. */
  readonly hasFailed: boolean;
  readonly endpoint: Pick<Endpoint, 'answersImages' | 'answersVectors' | 'isUnmeasured' | 'unit' | 'isFree'>;
}

type Measured = Pick<
  UsageMeter,
  'reported' | 'bytes' | 'textBytes' | 'images' | 'tools' | 'events' | 'silence' | 'duration'
> &
  Partial<Pick<UsageMeter, 'reportsEarly' | 'reportsInputFirst' | 'units' | 'readsText'>>;

/** The tokens visible in an answer; a stream has at least one token per event. Bytes of images and vectors say nothing. */
export function tokensSeen({ events, textBytes, bytes }: Pick<Measured, 'events' | 'textBytes' | 'bytes'>): number {
  return Math.max(events, Math.ceil((events > 0 ? textBytes : bytes) / answerBytesPerToken));
}

/**
 * The estimated output of a call whose upstream reported none: what was visible of it; and when the client left, what the model
 * may have written since, within the limit of the request.
 */
function estimateOutput(meter: Measured, { output, ending, endpoint }: MeteredCall): number {
  const { answersImages, answersVectors, isUnmeasured } = endpoint;
  if (answersVectors || (isUnmeasured && !meter.readsText && meter.events === 0)) return 0;
  const seenTokens = answersImages ? 0 : tokensSeen(meter);
  if (ending !== 'client_left') return seenTokens;
  const unseenTokens = Math.floor((meter.silence / 1_000) * unseenTokensPerSecond) * output.choices;
  const limit = (output.maxTokens ?? Number.POSITIVE_INFINITY) * output.choices;
  return Math.max(seenTokens, Math.min(seenTokens + unseenTokens, limit));
}

/** The amounts of a record. */
export type Used = Pick<
  UsageRecord,
  | 'inputTokens'
  | 'cachedInputTokens'
  | 'cacheWriteTokens'
  | 'cacheWriteHourTokens'
  | 'outputTokens'
  | 'reasoningTokens'
  | 'inputAudioTokens'
  | 'cachedInputAudioTokens'
  | 'outputAudioTokens'
  | 'images'
  | 'imageModels'
  | 'webSearchCalls'
  | 'fileSearchCalls'
  | 'codeInterpreterCalls'
  | 'seconds'
  | 'characters'
  | 'units'
  | 'stored'
  | 'estimated'
>;

/** Of a call that has used nothing. */
export const noUsage: Used = Object.freeze({
  inputTokens: 0,
  cachedInputTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  images: 0,
  seconds: 0,
  characters: 0,
  estimated: false,
});

/** What a call has used when it has ended. */
export function finalUsage(meter: Measured, call: MeteredCall): Used {
  const { units } = call.output;
  // a record that was opened with units must not keep them
  if (call.endpoint.isFree || call.hasFailed) return units === undefined ? noUsage : { ...noUsage, units: 0 };
  const { tools } = meter;
  const ofModel = usedByModel(meter, call);
  const used = units === undefined ? ofModel : { ...ofModel, units: meter.units ?? units };
  if (tools === noToolUse) return used;
  const images = used.images + tools.images;
  return { ...used, ...tools, images, ...(tools.images > 0 && { imageModels: call.imageModels ?? [imageModel] }) };
}

function usedByModel(meter: Measured, call: MeteredCall): Used {
  const { reported } = meter;
  const { ending, endpoint, output } = call;
  const { answersImages, unit } = endpoint;
  // an upstream that works on images finishes them, also when the client has left
  const unseen = ending === 'client_left' ? output.choices : 0;
  const images = answersImages ? Math.max(meter.images, unseen) : 0;
  // exact, whatever came of the answer: the whole text was sent up
  const characters = unit === 'characters' ? (output.characters ?? 0) : 0;
  if (reported) {
    const used = { images, seconds: 0, characters, estimated: false, reasoningTokens: 0, ...reported };
    if (ending === 'complete' || !meter.reportsEarly) return used;
    const outputTokens = estimateOutput(meter, call);
    const expected = meter.reportsInputFirst ? reported.outputTokens : 2 * reported.outputTokens + fewTokens;
    return outputTokens > expected ? { ...used, outputTokens, estimated: true } : used;
  }
  if (unit === 'characters') return { ...noUsage, characters };
  const duration = unit === 'seconds' ? meter.duration : undefined;
  if (duration !== undefined) return { ...noUsage, seconds: duration };
  // images are counted by number; many providers report no tokens for them
  if (images > 0 && ending === 'complete') {
    return { ...noUsage, images };
  }
  return {
    ...noUsage,
    inputTokens: call.estimatedInput,
    outputTokens: estimateOutput(meter, call),
    images,
    seconds: unit === 'seconds' ? (output.seconds ?? 0) : 0,
    estimated: true,
  };
}
