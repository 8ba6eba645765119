import type { OutboundError } from '../../../outbound/outbound-error.ts';
import type { BodySink } from '../../../outbound/response-body.ts';
import type { RelayedBody } from '../decoded-body.ts';

/** The most that is read to see what a body is. Bytes. */
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

/** A body whose first bytes are looked at before it is read from its beginning. Call {@link isEvents} first, once. */
export class PeekedBody implements RelayedBody {
  readonly #source: RelayedBody;
  #held: Buffer[] = [];
  #outcome: 'end' | OutboundError | undefined;

  constructor(source: RelayedBody) {
    this.#source = source;
  }

  /**
   * Reads until the first bytes say whether it is a stream of server-sent events.
   * @param onProgress called for every chunk
   */
  isEvents(onProgress: () => void): Promise<boolean> {
    const whole = this.#source.takeWhole();
    if (whole) {
      this.#held.push(whole);
      this.#outcome = 'end';
      return Promise.resolve(beginsAsEvents(whole) === true);
    }
    return new Promise((resolve) => {
      const settle = (outcome: 'end' | OutboundError): void => {
        this.#outcome = outcome;
        resolve(false);
      };
      this.#source.flowTo({
        onChunk: (chunk) => {
          onProgress();
          this.#held.push(chunk);
          const isEvents = beginsAsEvents(Buffer.concat(this.#held));
          if (isEvents !== undefined) resolve(isEvents);
          return isEvents === undefined;
        },
        onEnd: () => settle('end'),
        onError: settle,
      });
    });
  }

  takeWhole(): Buffer | undefined {
    return this.#outcome === 'end' ? Buffer.concat(this.#held) : undefined;
  }

  flowTo(sink: BodySink): void {
    for (const chunk of this.#held) sink.onChunk(chunk);
    this.#held = [];
    if (this.#outcome === undefined) this.#source.flowTo(sink);
    else if (this.#outcome === 'end') sink.onEnd();
    else sink.onError(this.#outcome);
  }

  resume(): void {
    this.#source.resume();
  }

  destroy(): void {
    this.#source.destroy();
  }
}
