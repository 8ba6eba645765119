import { type Fields, parsed } from './answer-body.ts';
import { dataOf } from './event-framer.ts';

export const eventEnd = /\r\n\r\n|\n\n|\r\r/g;
/** The most that is held of an event that has not come to its end. Characters. */
const longestEvent = 64 * 1024;
/** Events after which nothing more is made, and those with which an item begins and ends. */
const readEvents = /"response\.(?:output_item\.(?:added|done)|completed|failed|incomplete|cancelled)"/;
/** An event names its type so early. Characters. */
const typeLength = 256;

const isLast = (type: string | undefined): boolean => type !== undefined && !type.startsWith('"response.output_item');

/**
 * Reads the events of a response that show its items, or how it has ended. Of one that is longer than {@link longestEvent}, such as an image, nothing is read: the event with
 * which its item began is short.
 */
export class ItemEvents {
  /** Whether the last event has begun: it has the whole response, and may come in many chunks. */
  isEnded = false;
  #tail = '';

  read(chunk: Buffer): Fields[] {
    const events = (this.#tail + chunk.toString('latin1')).split(eventEnd);
    const tail = events.pop() as string;
    this.#tail = tail.length > longestEvent ? '' : tail;
    this.isEnded ||= isLast(readEvents.exec(tail.slice(0, typeLength))?.[0]);
    return events.flatMap((event) => {
      const type = readEvents.exec(event)?.[0];
      this.isEnded ||= isLast(type);
      const read = type === undefined ? undefined : parsed(dataOf(event));
      return read ? [read] : [];
    });
  }
}
