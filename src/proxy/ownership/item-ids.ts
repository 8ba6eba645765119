import { JsonMembers } from '../../http/json/search.ts';
import { beginsAsJson } from './recorded-body.ts';
import { longestId, storedId } from './stored-objects.ts';

/** The longest key or id that is read, with its quotes and white space around it. Bytes. */
const longestMember = 2 * longestId;
/** The most that is held of an event that has not come to its end. Characters. */
const longestEvent = 64 * 1024;
/** Events after which nothing more is made, and those with which an item begins and ends. */
const readEvents = /"response\.(?:output_item\.(?:added|done)|completed|failed|incomplete|cancelled)"/;
/** An event names its type so early. Characters. */
const headLength = 256;
const blankLine = /\r\n\r\n|\n\n|\r\r/;

/** Reads the ids of items out of an answer while it passes. */
export interface ItemIds {
  /** @returns the ids that must be stored before this chunk is passed on */
  read(chunk: Buffer): readonly string[];
  /** The ids that are left when the answer has ended. */
  rest(): readonly string[];
}

/** Reads `<list>[].id` in a JSON object, however large its texts are, and holds nothing of them. They are due when the list has ended. */
class ListedIds implements ItemIds {
  #ids: string[] = [];
  #isDue = false;
  readonly #members: JsonMembers;

  constructor(list: string) {
    this.#members = new JsonMembers({
      list,
      names: ['id'],
      keepLimit: longestMember,
      onMember: (_, id) => {
        if (typeof id === 'string' && storedId.test(id)) this.#ids.push(id);
      },
      onListEnd: () => {
        this.#isDue = true;
      },
    });
  }

  read(chunk: Buffer): readonly string[] {
    this.#members.read(chunk);
    if (!this.#isDue) return [];
    this.#isDue = false;
    return this.rest();
  }

  rest(): readonly string[] {
    const ids = this.#ids;
    this.#ids = [];
    return ids;
  }
}

/** The id of the item that an event is about. */
function idIn(event: string): string | undefined {
  const lines = event.split(/\r\n|\n|\r/).filter((line) => line.startsWith('data:'));
  try {
    const { item } = JSON.parse(lines.map((line) => line.slice(5)).join('\n')) as { item?: { id?: unknown } };
    return typeof item?.id === 'string' && storedId.test(item.id) ? item.id : undefined;
  } catch {
    return undefined;
  }
}

const isLast = (type: string | undefined): boolean => type !== undefined && !type.startsWith('"response.output_item');

/** Reads the ids of the items that the events of a response show. They are due with its last event. */
class StreamedIds implements ItemIds {
  #ids = new Set<string>();
  #tail = '';

  read(chunk: Buffer): readonly string[] {
    const events = (this.#tail + chunk.toString('latin1')).split(blankLine);
    const tail = events.pop() as string;
    this.#tail = tail.length > longestEvent ? '' : tail;
    // the last event has the whole response, and may come in many chunks: the ids are due before its end
    let isEnded = isLast(readEvents.exec(tail.slice(0, headLength))?.[0]);
    for (const event of events) {
      const type = readEvents.exec(event)?.[0];
      if (type === undefined) continue;
      if (isLast(type)) isEnded = true;
      const id = idIn(event);
      if (id !== undefined) this.#ids.add(id);
    }
    return isEnded ? this.rest() : [];
  }

  rest(): readonly string[] {
    const ids = [...this.#ids];
    this.#ids.clear();
    return ids;
  }
}

/** Reads the ids of items in an answer: those of a list in JSON, or those that a stream of events shows. */
export class AnsweredIds implements ItemIds {
  readonly #list: string;
  #ids: ItemIds | undefined;

  /** @param list the member of the answer that has the items */
  constructor(list: 'output' | 'data') {
    this.#list = list;
  }

  read(chunk: Buffer): readonly string[] {
    if (this.#ids === undefined) {
      const isJson = beginsAsJson(chunk);
      if (isJson === undefined) return [];
      this.#ids = isJson ? new ListedIds(this.#list) : new StreamedIds();
    }
    return this.#ids.read(chunk);
  }

  rest(): readonly string[] {
    return this.#ids?.rest() ?? [];
  }
}
