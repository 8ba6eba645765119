import { type Fields, parsed } from './answer-body.ts';
import { dataOf, EventTexts } from './event-framer.ts';

/** Events after which nothing more is made, and those with which an item begins and ends. */
const readEvents = /"response\.(?:output_item\.(?:added|done)|completed|failed|incomplete|cancelled)"/;
/** An event names its type so early. Characters. */
const typeLength = 256;

const isLast = (type: string | undefined): boolean => type !== undefined && !type.startsWith('"response.output_item');

/**
 * Reads the events of a response that show its items, or how it has ended. Of one that is too long for {@link EventTexts}, such as an image, nothing is read: the event with
 * which its item began is short.
 */
export class ItemEvents {
  /** Whether the last event has begun: it has the whole response, and may come in many chunks. */
  isEnded = false;
  readonly #texts = new EventTexts();

  read(chunk: Buffer): Fields[] {
    const events = this.#texts.read(chunk);
    this.isEnded ||= isLast(readEvents.exec(this.#texts.tail.slice(0, typeLength))?.[0]);
    return events.flatMap((event) => {
      const type = readEvents.exec(event)?.[0];
      this.isEnded ||= isLast(type);
      const read = type === undefined ? undefined : parsed(dataOf(event));
      return read ? [read] : [];
    });
  }
}
