import { beginsAsJson } from './recorded-body.ts';
import { storedId } from './stored-objects.ts';

const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/** The longest key or id that is read. Characters. */
const longestText = 256;
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

/** Reads `<list>[].id` in a JSON object, however large its texts are, and holds nothing of them. */
class ListedIds implements ItemIds {
  readonly #list: string;
  #ids: string[] = [];
  #depth = 0;
  #inString = false;
  #isEscaped = false;
  #inList = false;
  /** What has been read of a text that may be a key or an id. */
  #text = '';
  /** The key at depth 1, or in an item of the list. */
  #key = '';
  #isValue = false;

  constructor(list: string) {
    this.#list = list;
  }

  read(chunk: Buffer): readonly string[] {
    let isListed = false;
    for (let i = 0; i < chunk.length; i += 1) {
      if (this.#inString) i = this.#throughString(chunk, i);
      else isListed = this.#step(chunk[i] as number) || isListed;
    }
    return isListed ? this.rest() : [];
  }

  rest(): readonly string[] {
    const ids = this.#ids;
    this.#ids = [];
    return ids;
  }

  /** Whether keys and texts are read here: those of the object itself, and of the items. */
  get #reads(): boolean {
    return this.#depth === 1 || (this.#inList && this.#depth === 3);
  }

  /** @returns whether the list has ended */
  #step(byte: number): boolean {
    if (byte === quote) {
      this.#inString = true;
      this.#text = '';
    } else if (byte === openBrace || byte === openBracket) {
      this.#depth += 1;
      if (this.#depth === 2) this.#inList = byte === openBracket && this.#isValue && this.#key === this.#list;
      this.#isValue = false;
    } else if (byte === closeBrace || byte === closeBracket) {
      this.#depth -= 1;
      const ends = this.#inList && this.#depth === 1;
      if (ends) this.#inList = false;
      return ends;
    } else if (byte === colon && this.#reads) {
      this.#key = this.#text;
      this.#isValue = true;
    } else if (byte === comma && this.#reads) this.#isValue = false;
    return false;
  }

  /** @returns the index of the closing quote, or of the last byte */
  #throughString(chunk: Buffer, start: number): number {
    let end = start;
    for (; end < chunk.length; end += 1) {
      const byte = chunk[end];
      if (this.#isEscaped) this.#isEscaped = false;
      else if (byte === backslash) this.#isEscaped = true;
      else if (byte === quote) break;
    }
    if (this.#reads && this.#text.length <= longestText) {
      this.#text += chunk.toString('latin1', start, Math.min(end, start + longestText + 1));
    }
    if (end < chunk.length) this.#endString();
    return end;
  }

  #endString(): void {
    this.#inString = false;
    const isId = this.#inList && this.#depth === 3 && this.#isValue && this.#key === 'id';
    if (isId && storedId.test(this.#text)) this.#ids.push(this.#text);
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
