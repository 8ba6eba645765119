import { searchedKey } from '../../http/body/json/search.ts';
import type { Endpoint } from '../endpoint.ts';
import type { ChunkObserver } from '../relay/transfer.ts';
import type { ModelBody } from '../request/model-body.ts';
import { type ReportedUsage, UsageReader } from './reported-usage.ts';
import { ValueReader } from './value-reader.ts';

/** Counts how often some bytes occur, however the stream is cut. */
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

/** What an answer is made of, for who measures it. */
export interface MeteredOutput {
  /** The key that the text of a stream stands under: `delta` in chats, `text` in completions. */
  readonly textKey?: NonNullable<Endpoint['textKey']>;
  /** Bytes of which an image of the answer has one of each kind at most. Without them images are not counted. */
  readonly imageMarks?: readonly string[];
  /** Answers or images asked for. */
  readonly choices: number;
}

/** What may be kept while a piece of text is not complete. Bytes. */
const textLimit = 64 * 1024;
const reasonLimit = 1024;
const finishKey = searchedKey('finish_reason', '"');
const textKeys = { delta: searchedKey('delta', '{"'), text: searchedKey('text', '{"') };
/** A shorter time without output says nothing about what a model does in it. Milliseconds. */
const shortSilence = 1_000;
/** What stands in a delta beside its text. */
const unwritten: ReadonlySet<string> = new Set(['role', 'id', 'type']);

/** The bytes of all text in a piece of an answer: content, reasoning, tool calls, refusals. Pure. */
function textBytes(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (typeof value !== 'object' || value === null) return 0;
  let sum = 0;
  for (const [name, part] of Object.entries(value)) if (!unwritten.has(name)) sum += textBytes(part);
  return sum;
}

/** Measures what an answer has used while it goes down. */
export class UsageMeter implements ChunkObserver {
  readonly #usage = new UsageReader();
  readonly #finished: ValueReader;
  readonly #text: ValueReader | undefined;
  readonly #images: readonly Occurrences[];
  readonly #choices: number;
  #finishedChoices = 0;
  #quietSince = performance.now();
  #silence = 0;
  #textBytes = 0;
  bytes = 0;
  /** Events of a stream, comments aside. */
  events = 0;

  constructor({ textKey, imageMarks = [], choices }: MeteredOutput) {
    this.#choices = choices;
    this.#images = imageMarks.map((mark) => new Occurrences(mark));
    this.#finished = new ValueReader(finishKey, reasonLimit, (value) => {
      if (typeof value === 'string') this.#finishedChoices += 1;
    });
    this.#text =
      textKey === undefined ? undefined : new ValueReader(textKeys[textKey], textLimit, (value) => this.#wrote(value));
  }

  /** The request has been sent to an upstream, which is at work from now on. */
  sent(): void {
    this.#quietSince = performance.now();
  }

  read(chunk: Buffer): void {
    this.bytes += chunk.length;
    this.#usage.read(chunk);
    this.#finished.read(chunk);
    this.#text?.read(chunk);
    for (const images of this.#images) images.read(chunk);
  }

  get reported(): ReportedUsage | undefined {
    return this.#usage.usage;
  }

  get images(): number {
    return Math.max(0, ...this.#images.map(({ count }) => count));
  }

  /** Bytes of the text that was seen, reasoning and tool calls included. */
  get textBytes(): number {
    return this.#text?.hasLost ? this.bytes : this.#textBytes;
  }

  /** Whether every answer that was asked for is there, so that at most its usage is still to come. */
  get isEnded(): boolean {
    return (this.#images.length > 0 ? this.images : this.#finishedChoices) >= this.#choices;
  }

  /** How long the upstream has been at work without a sign of it, in stretches of a second or more. Milliseconds. */
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

/** Most images come as bytes, some as the address where they are. */
const imageMarks = { whole: ['"b64_json"', '"url"'], stream: ['.completed"'] } as const;

/** What measures the answer to a request of this endpoint. */
export function createUsageMeter(
  { textKey, answersImages }: Endpoint,
  { stream, output: { choices } }: Pick<ModelBody, 'stream' | 'output'>,
): UsageMeter {
  return new UsageMeter({
    choices,
    ...(stream && textKey !== undefined && { textKey }),
    ...(answersImages && { imageMarks: stream ? imageMarks.stream : imageMarks.whole }),
  });
}
