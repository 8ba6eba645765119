import type { Tap } from './transfer.ts';
import { type ReportedUsage, UsageReader } from './usage-reader.ts';

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

/** What an answer is measured by while it goes down. */
export class Gauge implements Tap {
  readonly #usage = new UsageReader();
  readonly #images: Occurrences | undefined;
  bytes = 0;
  /** Events of a stream, comments aside. */
  events = 0;

  /** @param imageMark the bytes that every image of the answer has once; without it images are not counted */
  constructor(imageMark?: string) {
    this.#images = imageMark === undefined ? undefined : new Occurrences(imageMark);
  }

  read(chunk: Buffer): void {
    this.bytes += chunk.length;
    this.#usage.read(chunk);
    this.#images?.read(chunk);
  }

  get reported(): ReportedUsage | undefined {
    return this.#usage.usage;
  }

  get images(): number {
    return this.#images?.count ?? 0;
  }
}
