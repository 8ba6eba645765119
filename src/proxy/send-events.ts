import type { GatewayError } from '../errors.ts';
import { JsonSearch, searchedKey } from '../http/json/search.ts';
import type { CallEnding } from '../options/options.ts';
import type { DecodedResponse } from './answer-body.ts';
import { dataOf, type EventFilter, EventFramer } from './event-framer.ts';
import { failureFrom } from './failure.ts';
import { errorInEvent, mayHoldError } from './inspect-answer.ts';
import { type ResponsePlan, type StreamHandlers, transfer, writeHead } from './transfer.ts';

/**
 * Sends a stream of events as it comes. When it breaks off, it ends in an error event and without its last event, such as
 * `[DONE]`. What happens after the last event changes nothing: the client has everything.
 */
export async function sendEvents(plan: ResponsePlan): Promise<CallEnding> {
  const { res, deadline, meter } = plan;
  /** Whether its first event is an error: then there is no response. */
  const wasError = meter.hasFailed;
  const framer = new EventFramer(eventFilter(plan));
  const end = streamEnd(plan, framer);
  const handlers: StreamHandlers = {
    transform: framer,
    observer: {
      read(chunk) {
        meter.read(chunk);
        end.read?.(chunk);
      },
    },
    // an error is the end of a stream, whether or not more should follow
    isWhole: () => end.isDone || end.isWhole || meter.hasFailed,
    breakOff(_res, error) {
      if (end.isDone || meter.hasFailed) {
        res.end();
        return;
      }
      const event = end.errorEvent(failureFrom(error));
      res.end(framer.insideEvent ? `\n\n${event}` : event);
    },
  };
  writeHead(plan);
  let hadAll = true;
  const noteEnd = (): void => {
    hadAll = end.isDone;
  };
  if (deadline.clientDisconnected) noteEnd();
  res.once('close', noteEnd);
  const ended = transfer(plan, handlers);
  res.flushHeaders();
  const ending = await ended;
  res.off('close', noteEnd);
  meter.events = framer.events;
  // the last event may be too large to be read
  if (end.lastType === 'response.failed') meter.failure ??= { blamesRequest: false };
  // any other error ends the stream of a response that is made in the background, and not the response
  const runsOn =
    meter.hasFailed && plan.responseStream === 'background' && end.lastType !== 'response.failed' && !wasError;
  if (runsOn) meter.failure = undefined;
  // what a caller has sent comes back in the first events, whatever is called `usage` there included
  meter.trustsUsage = plan.responseStream === undefined || end.isDone;
  if (runsOn) return 'upstream_failed';
  return end.isDone && hadAll ? 'complete' : ending;
}

/** Notes in the meter that an event says that the answer has failed, and removes the usage chunk where that is wanted. */
function eventFilter({ meter, dropsUsageChunk }: ResponsePlan): EventFilter {
  return {
    mayConcern: (bytes) => mayHoldError(bytes) || (dropsUsageChunk && holdsUsage(bytes)),
    keeps(event) {
      meter.failure ??= errorInEvent(event);
      return !(dropsUsageChunk && isUsageChunk(event));
    },
  };
}

const usageObjects = searchedKey('usage', '{');

/** Whether a usage object begins somewhere in these bytes; cheap enough for every chunk of a stream. Pure. */
export function holdsUsage(bytes: Buffer): boolean {
  const search = new JsonSearch(usageObjects);
  search.next(bytes, 0);
  return search.isInside;
}

/**
 * Whether an event is the extra chunk that `include_usage` adds at the end of a stream: a usage object and no choices, which some
 * providers write as `[]`, some as `null`, and some leave out. It is removed unless the client asked for it. Pure.
 */
export function isUsageChunk(event: Buffer): boolean {
  if (!holdsUsage(event)) return false;
  try {
    const { choices, usage, error } = JSON.parse(dataOf(event.toString('utf8')));
    const hasChoices = Array.isArray(choices) ? choices.length > 0 : choices !== undefined && choices !== null;
    return typeof usage === 'object' && usage !== null && !hasChoices && !error;
  } catch {
    return false;
  }
}

/** How the events of a stream say that it has ended. */
interface StreamEnd {
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

function streamEnd(plan: ResponsePlan, framer: EventFramer): StreamEnd {
  const { response, endsInDone, responseStream, answers, meter } = plan;
  const { headers } = response;
  if (responseStream !== undefined) return new ResponseEnd(responseStream, isDelimited(headers));
  // the endpoints whose answers are not always JSON are those of audio
  if (answers !== undefined) return new AudioEnd();
  return {
    get isDone() {
      return framer.done;
    },
    // a server behind the upstream that dies often leaves a stream that HTTP calls whole
    get isWhole() {
      return !endsInDone || (isDelimited(headers) && meter.hasFinished);
    },
    errorEvent,
  };
}

const errorEvent = (error: GatewayError): string => `data: ${JSON.stringify(error.toBody())}\n\n`;

/** Whether a body says where it ends (RFC 9112, section 6.3). If not, it ends with its connection, and so may half of it. */
function isDelimited(headers: DecodedResponse['headers']): boolean {
  return headers['content-length'] !== undefined || /\bchunked\b/i.test(String(headers['transfer-encoding'] ?? ''));
}

const endOfAudio = eventsOf('error|speech\\.audio\\.done|transcript\\.text\\.done');

/** The end of a stream of speech or of a transcription. */
class AudioEnd implements StreamEnd {
  readonly #last = new LastEvent(endOfAudio);
  readonly isWhole = true;
  readonly errorEvent = errorEvent;

  read(chunk: Buffer): void {
    this.#last.read(chunk);
  }

  get isDone(): boolean {
    return this.#last.isDone;
  }
}

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
class ResponseEnd implements StreamEnd {
  readonly #stream: NonNullable<ResponsePlan['responseStream']>;
  readonly #isDelimited: boolean;
  readonly #last = new LastEvent(endOfResponse);
  #sequence = -1;
  #beginning: Buffer[] = [];
  #beginningLength = 0;
  #hasBegun = false;
  #isEmpty = true;

  constructor(stream: NonNullable<ResponsePlan['responseStream']>, isDelimited: boolean) {
    this.#stream = stream;
    this.#isDelimited = isDelimited;
  }

  read(chunk: Buffer): void {
    const text = this.#last.read(chunk);
    this.#isEmpty = false;
    if (!this.#hasBegun) this.#noteBeginning(chunk);
    const at = text.lastIndexOf(sequenceKey);
    const number = at === -1 ? undefined : sequence.exec(text.slice(at + sequenceKey.length, at + sequenceLength))?.[1];
    if (number !== undefined) this.#sequence = Number(number);
  }

  get isDone(): boolean {
    return this.#last.isDone;
  }

  /** Of a stream that is resumed after its last event there is nothing left. */
  get isWhole(): boolean {
    return this.#stream === 'resumed' && this.#isEmpty && this.#isDelimited;
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

/** Looks for the last event of a stream that does not end in `[DONE]`, however it is split into chunks. */
class LastEvent {
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
