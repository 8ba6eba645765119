import type { GatewayError } from '../../../errors.ts';
import { dataOf } from '../../metering/usage-chunk.ts';
import { endOfResponse, LastEvent } from './last-event.ts';

const sequenceKey = '"sequence_number"';
const sequence = /^\s*:\s*(\d{1,15})\b/;
/** How much behind that key is looked at. Characters. */
const sequenceLength = 96;
/** How much is kept of the first event, which shows the response as it begins. Bytes. */
const beginningLimit = 16 * 1024;
const firstEvent = /data:[\s\S]*?(?:\r\n\r\n|\n\n|\r\r)/;
const responseId = /"response"\s*:\s*\{\s*"id"\s*:\s*"([^"\\]*)"/;

/** Follows a stream of the Responses API: it does not end in `[DONE]`, but in an event that says how the response has ended. */
export class ResponseEvents {
  readonly #last = new LastEvent(endOfResponse);
  #sequence = -1;
  #beginning: Buffer[] = [];
  #beginningLength = 0;
  #hasBegun = false;
  /** Whether nothing has come yet. */
  isEmpty = true;

  read(chunk: Buffer): void {
    const text = this.#last.read(chunk);
    this.isEmpty = false;
    if (!this.#hasBegun) this.#noteBeginning(chunk);
    const at = text.lastIndexOf(sequenceKey);
    const number = at === -1 ? undefined : sequence.exec(text.slice(at + sequenceKey.length, at + sequenceLength))?.[1];
    if (number !== undefined) this.#sequence = Number(number);
  }

  /** Whether the last event has come, to its end. */
  get isDone(): boolean {
    return this.#last.isDone;
  }

  /** The type of the last event, once it has begun. */
  get lastType(): string | undefined {
    return this.#last.type;
  }

  /**
   * The last event of a stream that broke off while its response runs on, or before it has shown a response: clients raise on it, and take no
   * response for a failed one.
   */
  errorEvent(error: GatewayError): string {
    const { error: body } = error.toBody();
    const { code, message, param } = body;
    const data = { type: 'error', sequence_number: this.#sequence + 1, code, message, param, error: body };
    return `event: error\ndata: ${JSON.stringify(data)}\n\n`;
  }

  /** The last event of a stream that broke off, and its response with it: the response that the first event has shown, now failed. */
  failedEvent(error: GatewayError): string {
    const shown = this.#shownResponse();
    if (!shown) return this.errorEvent(error);
    const { code, message } = error.toBody().error;
    const response = { ...shown, status: 'failed', error: { code, message } };
    const data = { type: 'response.failed', sequence_number: this.#sequence + 1, response };
    return `event: response.failed\ndata: ${JSON.stringify(data)}\n\n`;
  }

  #noteBeginning(chunk: Buffer): void {
    this.#beginning.push(chunk.subarray(0, beginningLimit - this.#beginningLength));
    this.#beginningLength += chunk.length;
    const mayEnd = chunk.includes('\n') || chunk.includes('\r');
    this.#hasBegun = this.#beginningLength >= beginningLimit || (mayEnd && firstEvent.test(this.#beginningText()));
  }

  #beginningText(): string {
    this.#beginning = [Buffer.concat(this.#beginning)];
    return String(this.#beginning[0]);
  }

  #shownResponse(): Readonly<Record<string, unknown>> | undefined {
    const text = this.#beginningText();
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
