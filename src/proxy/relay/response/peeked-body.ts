import type { BodySink } from '../../../outbound/exchange.ts';
import type { OutboundError } from '../../../outbound/outbound-error.ts';
import type { RelayedBody } from '../decoded-body.ts';

/** The most that is read to see whether a body is a stream. Bytes. */
const peekLimit = 1024;
/** What a line of a stream of events begins with (WHATWG HTML, 9.2.6). */
const lineStarts = ['data:', 'event:', 'id:', 'retry:', ':'];

/** Whether a body begins like server-sent events; `undefined` when more of it has to be seen. Pure. */
export function beginsAsEvents(bytes: Buffer): boolean | undefined {
  // a byte order mark and blank lines may come first
  const text = bytes.toString('latin1', 0, peekLimit).replace(/^(?:\u00ef\u00bb\u00bf)?[\r\n]*/, '');
  if (lineStarts.some((start) => text.startsWith(start))) return true;
  const mayBegin = text === '\u00ef' || text === '\u00ef\u00bb' || lineStarts.some((start) => start.startsWith(text));
  return mayBegin && bytes.length < peekLimit ? undefined : false;
}

/** How long a body is peeked at. */
export interface PeekLimits {
  /** Called for every chunk. */
  readonly onProgress: () => void;
  /** Milliseconds. @default no limit but that of the call */
  readonly maxWait?: number;
}

/** What has come of a body. */
export interface BodyStart {
  readonly length: number;
  readonly isWhole: boolean;
  bytes(): Buffer;
}

/** A body whose first bytes are looked at before it is read from its beginning. Call {@link peek} first, once. */
export class PeekedBody implements RelayedBody {
  readonly #source: RelayedBody;
  #held: Buffer[] = [];
  #length = 0;
  #outcome: 'end' | OutboundError | undefined;
  #sink: BodySink | undefined;
  /** Whether the sink has got everything that is held, and gets the rest from the source. */
  #isReplayed = false;

  constructor(source: RelayedBody) {
    this.#source = source;
  }

  /**
   * Reads until `decide` returns something else than `undefined`, and resolves to that. Resolves to `undefined` when the body ends or breaks
   * off before, or takes too long.
   */
  peek<T>(decide: (start: BodyStart) => T | undefined, { onProgress, maxWait }: PeekLimits): Promise<T | undefined> {
    const whole = this.#source.takeWhole();
    if (whole) {
      this.#outcome = 'end';
      this.#hold(whole);
      return Promise.resolve(decide(this.#start()));
    }
    return new Promise((resolve) => {
      let isDecided = false;
      const settle = (value: T | undefined): void => {
        isDecided = true;
        clearTimeout(timer);
        resolve(value);
      };
      const timer = maxWait === undefined ? undefined : setTimeout(() => settle(undefined), maxWait);
      this.#source.flowTo({
        onChunk: (chunk) => {
          this.#hold(chunk);
          if (isDecided) return false;
          onProgress();
          const decided = decide(this.#start());
          if (decided !== undefined) settle(decided);
          return decided === undefined;
        },
        onEnd: () => {
          this.#outcome = 'end';
          if (!isDecided) settle(decide(this.#start()));
        },
        onError: (error) => {
          this.#outcome = error;
          settle(undefined);
        },
      });
    });
  }

  takeWhole(): Buffer | undefined {
    return this.#outcome === 'end' ? this.#bytes() : undefined;
  }

  flowTo(sink: BodySink): void {
    this.#sink = sink;
    this.#replay();
  }

  resume(): void {
    if (this.#isReplayed) this.#source.resume();
    else this.#replay();
  }

  destroy(): void {
    this.#held = [];
    this.#sink = undefined;
    this.#source.destroy();
  }

  /** Sends on what is held, as far as the sink takes it. */
  #replay(): void {
    const sink = this.#sink;
    if (!sink) return;
    for (let chunk = this.#held.shift(); chunk; chunk = this.#held.shift()) if (!sink.onChunk(chunk)) return;
    if (this.#outcome === undefined) {
      this.#isReplayed = true;
      this.#source.flowTo(sink);
      return;
    }
    this.#sink = undefined;
    if (this.#outcome === 'end') sink.onEnd();
    else sink.onError(this.#outcome);
  }

  #hold(chunk: Buffer): void {
    this.#held.push(chunk);
    this.#length += chunk.length;
  }

  #bytes(): Buffer {
    if (this.#held.length !== 1) this.#held = [Buffer.concat(this.#held)];
    return this.#held[0] as Buffer;
  }

  #start(): BodyStart {
    return { length: this.#length, isWhole: this.#outcome === 'end', bytes: () => this.#bytes() };
  }
}
