import type { GatewayError } from '../../../errors.ts';
import { endOfResponse, LastEvent } from './last-event.ts';

const sequenceKey = '"sequence_number"';
const sequence = /^\s*:\s*(\d{1,15})\b/;
/** How much behind that key is looked at. Characters. */
const sequenceLength = 96;

/** Follows a stream of the Responses API: it does not end in `[DONE]`, but in an event that says how the response has ended. */
export class ResponseEvents {
  readonly #last = new LastEvent(endOfResponse);
  #sequence = -1;
  /** Whether nothing has come yet. */
  isEmpty = true;

  read(chunk: Buffer): void {
    const text = this.#last.read(chunk);
    this.isEmpty = false;
    const at = text.lastIndexOf(sequenceKey);
    const number = at === -1 ? undefined : sequence.exec(text.slice(at + sequenceKey.length, at + sequenceLength))?.[1];
    if (number !== undefined) this.#sequence = Number(number);
  }

  /** Whether the last event has come, to its end. */
  get isDone(): boolean {
    return this.#last.isDone;
  }

  /** The last event of a stream that broke off, in both forms that clients read: as an event of the type `error`, and with an `error` in it. */
  errorEvent(error: GatewayError): string {
    const { error: body } = error.toBody();
    const { code, message, param } = body;
    const data = { type: 'error', sequence_number: this.#sequence + 1, code, message, param, error: body };
    return `event: error\ndata: ${JSON.stringify(data)}\n\n`;
  }
}
