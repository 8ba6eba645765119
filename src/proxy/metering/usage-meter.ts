import { searchedKey } from '../../http/json/search.ts';
import type { Endpoint } from '../endpoint.ts';
import type { ModelBody } from '../request/model-body.ts';
import { type ReportedUsage, UsageReader } from './usage-reader.ts';
import { ValueReader } from './value-reader.ts';

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

/** What is measured in an answer. */
export interface MeteredOutput {
  /** The key that holds the text of a stream: `delta` in chats, `text` in completions. */
  readonly textKey?: NonNullable<Endpoint['textKey']>;
  /** Strings of which each image in the answer has at most one each. Without them images are not counted. */
  readonly imageMarks?: readonly string[];
  /** Answers or images asked for. */
  readonly choices: number;
  /** Where it is seconds, the length of a recording is looked for. */
  readonly unit?: Endpoint['unit'];
}

/** The most that is held of an incomplete piece of text. Bytes. */
const textLimit = 64 * 1024;
const reasonLimit = 1024;
const finishKey = searchedKey('finish_reason', '"');
const textKeys = { delta: searchedKey('delta', '{"'), text: searchedKey('text', '{"') };
/** How much of an answer's beginning is kept. Bytes. */
const beginningLimit = 1024;
/** Inside a JSON string the quotes would be escaped. */
const durationValue = /"duration":\s*"?(\d{1,6}(?:\.\d{1,9})?)(?=[\s",}])/;
/** A shorter silence says nothing about what the model does. Milliseconds. */
const shortSilence = 1_000;
/** The keys of a delta that are not text. */
const unwritten: ReadonlySet<string> = new Set(['role', 'id', 'type']);

/** No text lies deeper in a piece of an answer. */
const deepest = 32;

/** The bytes of all text in a piece of an answer: content, reasoning, tool calls, refusals. Pure. */
export function textBytes(value: unknown, depth = 0): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (typeof value !== 'object' || value === null || depth > deepest) return 0;
  let sum = 0;
  for (const [name, part] of Object.entries(value)) if (!unwritten.has(name)) sum += textBytes(part, depth + 1);
  return sum;
}

/** What an answer says of its failure. */
export interface SaidFailure {
  /** Whether the request is wrong, and not the upstream at fault. */
  readonly blamesRequest: boolean;
}

/** Measures the usage of an answer while it is sent. */
export class UsageMeter {
  readonly #usage = new UsageReader();
  readonly #finished: ValueReader;
  readonly #text: ValueReader | undefined;
  readonly #images: readonly Occurrences[];
  readonly #choices: number;
  #finishedChoices = 0;
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
  failure: SaidFailure | undefined;

  constructor({ textKey, imageMarks = [], choices, unit }: MeteredOutput) {
    this.#keepsBeginning = unit === 'seconds';
    this.#choices = choices;
    this.#images = imageMarks.map((mark) => new Occurrences(mark));
    this.#finished = new ValueReader(finishKey, reasonLimit, (value) => {
      if (typeof value === 'string') this.#finishedChoices += 1;
    });
    this.#text =
      textKey === undefined ? undefined : new ValueReader(textKeys[textKey], textLimit, (value) => this.#wrote(value));
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
    this.#usage.read(chunk);
    this.#finished.read(chunk);
    this.#text?.read(chunk);
    for (const images of this.#images) images.read(chunk);
  }

  /** Counts bytes in which nothing is looked for. */
  skip({ length }: Buffer): void {
    this.bytes += length;
  }

  get hasFailed(): boolean {
    return this.failure !== undefined;
  }

  get reported(): ReportedUsage | undefined {
    return this.trustsUsage ? this.#usage.usage : undefined;
  }

  /** How long a recording is by the answer's `duration`, which verbose transcriptions begin with. Seconds. */
  get duration(): number | undefined {
    const digits = durationValue.exec(this.#beginning)?.[1];
    return digits === undefined ? undefined : Number(digits);
  }

  get images(): number {
    return Math.max(0, ...this.#images.map(({ count }) => count));
  }

  /** Bytes of the visible text, reasoning and tool calls included. */
  get textBytes(): number {
    return this.#text?.hasLost ? this.bytes : this.#textBytes;
  }

  /** Whether an answer has its `finish_reason`. */
  get hasFinished(): boolean {
    return this.#finishedChoices > 0;
  }

  /** Whether all requested answers have come, so that only the usage may still be missing. */
  get isEnded(): boolean {
    return (this.#images.length > 0 ? this.images : this.#finishedChoices) >= this.#choices;
  }

  /** How long the upstream has worked without output, counting silences of a second or more. Milliseconds. */
  get silence(): number {
    return this.#silence + this.#stretch();
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

/** Most images come as bytes, some as an address. */
const imageMarks = { whole: ['"b64_json"', '"url"'], stream: ['.completed"'] } as const;

/** Creates the meter for the answer to a request of this endpoint. */
export function createUsageMeter(
  { textKey, answersImages, unit }: Endpoint,
  { stream, output: { choices } }: Pick<ModelBody, 'stream' | 'output'>,
): UsageMeter {
  return new UsageMeter({
    choices,
    unit,
    ...(stream && textKey !== undefined && { textKey }),
    ...(answersImages && { imageMarks: stream ? imageMarks.stream : imageMarks.whole }),
  });
}
