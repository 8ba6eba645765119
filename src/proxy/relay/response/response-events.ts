import type { GatewayError } from '../../../errors.ts';

/** What is kept of the bytes before, to find what two chunks share. Characters. */
const tailLength = 96;
/**
 * The events with which a stream of the Responses API ends, by their field `event` or by the `type` that their data begins with. Both begin a
 * line, which nothing inside a JSON string can do: what a caller has named, such as metadata, is in the events too.
 */
const lastEvent =
  /(?:^|[\r\n])event: ?(?:error|response\.(?:completed|failed|incomplete|cancelled))[\r\n]|(?:^|[\r\n])data: ?\{\s*"type"\s*:\s*"(?:error|response\.(?:completed|failed|incomplete|cancelled))"/;
const sequenceKey = '"sequence_number"';
const sequence = /^\s*:\s*(\d{1,15})\b/;
const blankLine = /(?:\r\n\r\n|\n\n|\r\r)$/;

/** Follows a stream of the Responses API: it does not end in `[DONE]`, but in an event that says how the response has ended. */
export class ResponseEvents {
  #tail = '';
  #hasLast = false;
  #sequence = -1;
  /** Whether nothing has come yet. */
  isEmpty = true;

  read(chunk: Buffer): void {
    const text = this.#tail + chunk.toString('latin1');
    this.isEmpty = false;
    this.#hasLast ||= lastEvent.test(text);
    const at = text.lastIndexOf(sequenceKey);
    const number = at === -1 ? undefined : sequence.exec(text.slice(at + sequenceKey.length, at + tailLength))?.[1];
    if (number !== undefined) this.#sequence = Number(number);
    this.#tail = text.slice(-tailLength);
  }

  /** Whether the last event has come, to its end. */
  get isDone(): boolean {
    return this.#hasLast && blankLine.test(this.#tail);
  }

  /** The last event of a stream that broke off, in both forms that clients read: as an event of the type `error`, and with an `error` in it. */
  errorEvent(error: GatewayError): string {
    const { error: body } = error.toBody();
    const { code, message, param } = body;
    const data = { type: 'error', sequence_number: this.#sequence + 1, code, message, param, error: body };
    return `event: error\ndata: ${JSON.stringify(data)}\n\n`;
  }
}
