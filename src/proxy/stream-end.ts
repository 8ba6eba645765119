import type { GatewayError } from '../errors.ts';
import { dataOf } from './event-framer.ts';

/**
 * What a stream of the Responses API is of: a response that ends with its stream, one that is made in the background, or such a one again, from some
 * event on.
 */
export type ResponseStream = 'whole' | 'background' | 'resumed';

/** How the events of a stream say that it has ended. */
export interface StreamEnd {
  /** Whether the last event has come: then the answer is whole, whatever happens to the connection. */
  readonly isDone: boolean;
  /** Whether a body that has ended without it is whole. */
  readonly isWhole: boolean;
  /** The type of the last event of a response, once it has begun, however large it is. */
  readonly lastType?: string | undefined;
  read?(chunk: Buffer): void;
  /** The last event of a stream that broke off: official clients throw on it, and do not take half an answer for a whole one. */
  errorEvent(error: GatewayError): string;
}

/** An error as the last event of a stream. */
export const errorEvent = (error: GatewayError): string => `data: ${JSON.stringify(error.toBody())}\n\n`;

/** The last events of streams of speech and of transcriptions. */
export const endOfAudio = eventsOf('error|speech\\.audio\\.done|transcript\\.text\\.done');

const endOfResponse = eventsOf('error|response\\.(?:completed|failed|incomplete|cancelled)');
const sequenceKey = '"sequence_number"';
const sequence = /^\s*:\s*(\d{1,15})\b/;
/** How much behind that key is looked at. Characters. */
const sequenceLength = 96;
/** How much is kept of the first event, which shows the response as it begins. Bytes. */
const beginningLimit = 16 * 1024;
const firstEvent = /data:[\s\S]*?(?:\r\n\r\n|\n\n|\r\r)/;
const responseId = /"response"\s*:\s*\{\s*"id"\s*:\s*"([^"\\]*)"/;

/** The end of a stream of the Responses API: not `[DONE]`, but an event that says how the response has ended. */
export class ResponseEnd implements StreamEnd {
  readonly #stream: ResponseStream;
  readonly #isDelimited: boolean;
  readonly #last = new LastEvent(endOfResponse);
  #sequence = -1;
  /** Each byte as one character. */
  #beginning = '';
  #hasBegun = false;

  constructor(stream: ResponseStream, isDelimited: boolean) {
    this.#stream = stream;
    this.#isDelimited = isDelimited;
  }

  read(chunk: Buffer): void {
    const text = this.#last.read(chunk);
    if (!this.#hasBegun) {
      this.#beginning += chunk.toString('latin1', 0, beginningLimit - this.#beginning.length);
      const mayEnd = chunk.includes('\n') || chunk.includes('\r');
      this.#hasBegun = this.#beginning.length >= beginningLimit || (mayEnd && firstEvent.test(this.#beginning));
    }
    const at = text.lastIndexOf(sequenceKey);
    const number = at === -1 ? undefined : sequence.exec(text.slice(at + sequenceKey.length, at + sequenceLength))?.[1];
    if (number !== undefined) this.#sequence = Number(number);
  }

  get isDone(): boolean {
    return this.#last.isDone;
  }

  /** Of a stream that is resumed after its last event there is nothing left. */
  get isWhole(): boolean {
    return this.#stream === 'resumed' && this.#beginning === '' && this.#isDelimited;
  }

  get lastType(): string | undefined {
    return this.#last.type;
  }

  /** The response that the first event has shown, now failed. One that is made in the background runs on, and its stream can be resumed. */
  errorEvent(error: GatewayError): string {
    const { error: body } = error.toBody();
    const { code, message, param } = body;
    const next = { sequence_number: this.#sequence + 1 };
    const shown = this.#stream === 'whole' ? this.#shownResponse() : undefined;
    if (shown) {
      const response = { ...shown, status: 'failed', error: { code, message } };
      return `event: response.failed\ndata: ${JSON.stringify({ type: 'response.failed', ...next, response })}\n\n`;
    }
    // clients raise on it, and take no response for a failed one
    return `event: error\ndata: ${JSON.stringify({ type: 'error', ...next, code, message, param, error: body })}\n\n`;
  }

  #shownResponse(): Readonly<Record<string, unknown>> | undefined {
    const text = Buffer.from(this.#beginning, 'latin1').toString();
    const common = { object: 'response', created_at: Math.floor(Date.now() / 1_000), output: [] };
    try {
      const { response } = JSON.parse(dataOf(firstEvent.exec(text)?.[0] ?? ''));
      return typeof response?.id === 'string' ? { ...common, ...response } : undefined;
    } catch {
      // the event is larger than what is kept of it
      const id = responseId.exec(text)?.[1];
      return id === undefined ? undefined : { id, ...common };
    }
  }
}

/** What is kept of the bytes before, to find what two chunks share. Characters. */
const tailLength = 96;
const blankLine = /(?:\r\n\r\n|\n\n|\r\r)$/;

/**
 * The events of these types, by their field `event`, or by the `type` that their data begins or ends with (Llama Stack's end with it). These begin or end a
 * line, which nothing inside a JSON string can do, and no object inside the data: what a caller has named, such as metadata, is in the events too.
 * @param types as alternatives of a regular expression
 */
export function eventsOf(types: string): RegExp {
  const type = `"type"\\s*:\\s*"(${types})"`;
  const begins = `(?:^|[\\r\\n])data: ?\\{\\s*(?:"sequence_number"\\s*:\\s*\\d{1,15}\\s*,\\s*)?${type}`;
  return new RegExp(`(?:^|[\\r\\n])event: ?(${types})[\\r\\n]|${begins}|${type}\\s*\\}[\\r\\n]`);
}

/** The end of a stream that ends in an event other than `[DONE]`, however it is split into chunks. A body without it may be whole. */
export class LastEvent implements StreamEnd {
  readonly isWhole = true;
  readonly errorEvent = errorEvent;
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
      this.type = found?.[1] ?? found?.[2] ?? found?.[3];
    }
    this.#tail = text.slice(-tailLength);
    return text;
  }

  /** Whether it has come, to its end. */
  get isDone(): boolean {
    return this.type !== undefined && blankLine.test(this.#tail);
  }
}
