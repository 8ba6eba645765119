/** What is kept of the bytes before, to find what two chunks share. Characters. */
const tailLength = 96;
const blankLine = /(?:\r\n\r\n|\n\n|\r\r)$/;

/**
 * The events of these types, by their field `event` or by the `type` that their data begins with. Both begin a line, which nothing
 * inside a JSON string can do: what a caller has named, such as metadata, is in the events too.
 * @param types as alternatives of a regular expression
 */
function eventsOf(types: string): RegExp {
  return new RegExp(`(?:^|[\\r\\n])event: ?(${types})[\\r\\n]|(?:^|[\\r\\n])data: ?\\{\\s*"type"\\s*:\\s*"(${types})"`);
}

/** The events with which a stream of the Responses API ends. */
export const endOfResponse = eventsOf('error|response\\.(?:completed|failed|incomplete|cancelled)');

/** The events with which a stream of speech or of a transcription ends. */
export const endOfAudio = eventsOf('error|speech\\.audio\\.done|transcript\\.text\\.done');

/** Looks for the last event of a stream that does not end in `[DONE]`, however it is split into chunks. */
export class LastEvent {
  readonly #pattern: RegExp;
  #tail = '';
  /** Its type, once it has begun. */
  type: string | undefined;

  constructor(pattern: RegExp) {
    this.#pattern = pattern;
  }

  /** @returns the chunk as text, behind the end of what came before */
  read(chunk: Buffer): string {
    const text = this.#tail + chunk.toString('latin1');
    if (this.type === undefined) {
      const found = this.#pattern.exec(text);
      this.type = found?.[1] ?? found?.[2];
    }
    this.#tail = text.slice(-tailLength);
    return text;
  }

  /** Whether it has come, to its end. */
  get isDone(): boolean {
    return this.type !== undefined && blankLine.test(this.#tail);
  }
}
