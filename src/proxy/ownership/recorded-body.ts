import { type BodySink, ResponseBody } from '../../outbound/exchange.ts';
import { OutboundError } from '../../outbound/outbound-error.ts';
import { type StoredKind, storedId } from './stored-objects.ts';

/** The most that is held until an id is known. Bytes. The first event of a response repeats the whole request. */
const holdLimit = 40 * 1024 * 1024;
/** An id that stands first in an answer, as OpenAI writes it. Bytes that are looked at. */
const headLength = 512;
const firstId = /^\s*\{\s*"id"\s*:\s*"([^"\\]*)"/;
const eventEnd = /\r\n\r\n|\n\n|\r\r/g;

type SourceBody = Pick<ResponseBody, 'flowTo' | 'resume' | 'destroy'>;

/** What is done with the id of a new object. */
export interface Recording {
  readonly kind: StoredKind;
  /** Whether the object's status is needed too: then one JSON value is read to its end. @default false */
  readonly readsStatus?: boolean;
  /** Stores whose it is. */
  record(id: string, status: unknown): Promise<void>;
}

/** What is read of a new object. */
interface CreatedObject {
  readonly id: unknown;
  readonly status?: unknown;
}

function parsed(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** The `data` of an event, as one text. */
function dataOf(event: string): string {
  const lines = event.split(/\r\n|\n|\r/).filter((line) => line.startsWith('data:'));
  return lines.map((line) => line.slice(5)).join('\n');
}

/** The object that an event is about, if it has an id. */
function objectOf(event: string, kind: StoredKind): CreatedObject | undefined {
  const data = parsed(dataOf(event)) as Partial<CreatedObject> & { readonly response?: Partial<CreatedObject> | null };
  return withId(kind === 'response' ? data.response : data);
}

function withId(object: Partial<CreatedObject> | undefined | null): CreatedObject | undefined {
  return object?.id === undefined || object.id === null ? undefined : { id: object.id, status: object.status };
}

/**
 * Whether an answer is one JSON value, by its first chunk, and otherwise events; `undefined` for nothing but white space, which a provider
 * may send first to keep a long call's connection open.
 */
export function beginsAsJson(chunk: Buffer): boolean | undefined {
  const first = /\S/.exec(chunk.toString('latin1'))?.[0];
  return first === undefined ? undefined : first === '{' || first === '[';
}

/** One answer, held until it is stored whose it is. */
class RecordedBody implements BodySink {
  readonly out: ResponseBody;
  readonly #source: SourceBody;
  readonly #recording: Recording;
  #held: Buffer[] = [];
  #heldBytes = 0;
  #state: 'searching' | 'recording' | 'open' | 'failed' = 'searching';
  /** Whether it is one JSON value; `undefined` until more than white space has come. */
  #isPlain: boolean | undefined;
  #triedHead = false;
  #flowing = true;
  #outcome: 'end' | OutboundError | undefined;

  constructor(source: SourceBody, recording: Recording) {
    this.#source = source;
    this.#recording = recording;
    this.out = new ResponseBody({
      pause: () => {
        this.#flowing = false;
      },
      resume: () => {
        this.#flowing = true;
        if (this.#state !== 'recording') source.resume();
      },
      abort: () => source.destroy(),
    });
  }

  onChunk(chunk: Buffer): boolean {
    if (this.#state === 'open') {
      this.out.push(chunk);
      return this.#flowing;
    }
    this.#held.push(chunk);
    this.#heldBytes += chunk.length;
    if (this.#state === 'recording') return false;
    if (this.#heldBytes > holdLimit) {
      this.#fail(new OutboundError('invalid_response', 'the answer has no id'));
      return false;
    }
    return !this.#search(chunk) && this.#flowing;
  }

  onEnd(): void {
    if (this.#state === 'searching') this.#searchAll();
    this.#settle('end');
  }

  onError(error: OutboundError): void {
    // what is held may hold the id
    if (this.#state === 'searching') this.#held = [];
    this.#settle(error);
  }

  /** @returns whether it has found the id, and more must wait until that is recorded */
  #search(chunk: Buffer): boolean {
    this.#isPlain ??= beginsAsJson(chunk);
    if (this.#isPlain === undefined) return false;
    if (!this.#isPlain) {
      if (chunk.includes('\n') || chunk.includes('\r')) this.#searchEvents();
    } else if (!this.#recording.readsStatus && !this.#triedHead && this.#heldBytes >= headLength) {
      this.#triedHead = true;
      const head = firstId.exec(Buffer.concat(this.#held).toString('latin1', 0, headLength))?.[1];
      if (head !== undefined) this.#begin({ id: head });
    }
    return this.#state !== 'searching';
  }

  /** Lets events pass until one has an id. */
  #searchEvents(): void {
    const bytes = Buffer.concat(this.#held);
    const text = bytes.toString('latin1');
    let from = 0;
    for (const { index, 0: end } of text.matchAll(eventEnd)) {
      const object = objectOf(text.slice(from, index), this.#recording.kind);
      if (object) {
        this.#begin(object);
        break;
      }
      from = index + end.length;
    }
    if (from > 0) this.out.push(bytes.subarray(0, from));
    this.#held = [bytes.subarray(from)];
    this.#heldBytes = bytes.length - from;
  }

  /** There is no more to come. */
  #searchAll(): void {
    const text = Buffer.concat(this.#held).toString('latin1');
    const object = this.#isPlain ? withId(parsed(text)) : objectOf(text, this.#recording.kind);
    if (object) this.#begin(object);
    else this.#open();
  }

  #begin({ id, status }: CreatedObject): void {
    if (typeof id !== 'string' || !storedId.test(id)) {
      this.#fail(new OutboundError('invalid_response', 'the answer has an id that no provider gives'));
      return;
    }
    this.#state = 'recording';
    this.#recording
      .record(id, status)
      .then(
        () => this.#open(),
        (cause) => this.#fail(new OutboundError('unknown', 'an answer could not be recorded', { cause })),
      )
      .catch((cause) => this.#fail(new OutboundError('unknown', 'an answer could not be sent on', { cause })));
  }

  #open(): void {
    this.#state = 'open';
    for (const part of this.#held) if (part.length > 0) this.out.push(part);
    this.#held = [];
    if (this.#outcome !== undefined) this.out.settle(this.#outcome);
    else if (this.#flowing) this.#source.resume();
  }

  #settle(outcome: 'end' | OutboundError): void {
    this.#outcome ??= outcome;
    if (this.#state === 'open' || (this.#state === 'searching' && outcome !== 'end')) this.out.settle(outcome);
  }

  #fail(error: OutboundError): void {
    this.#state = 'failed';
    this.#held = [];
    this.#source.destroy();
    this.out.settle(error);
  }
}

/**
 * The body of an answer that creates something at an upstream: its bytes come when it is stored whose that is, so that no
 * client sees an id that no account owns. In a stream, what comes before the event with the id passes at once. If it cannot
 * be stored, the body breaks off with that error as the `cause`.
 */
export function recordedBody(body: SourceBody, recording: Recording): ResponseBody {
  const recorded = new RecordedBody(body, recording);
  body.flowTo(recorded);
  return recorded.out;
}
