import { JsonMembers } from '../http/json/search.ts';
import { OutboundError } from '../outbound/outbound-error.ts';
import { beginsAsJson, type Fields, parsed } from '../proxy/answer-body.ts';
import type { BackgroundWork } from '../proxy/call-storage.ts';
import { betweenEvents, dataOf } from '../proxy/event-framer.ts';
import { ItemEvents } from '../proxy/item-events.ts';
import { MessageReader } from '../proxy/messages.ts';
import type { MadeRow } from './kind-rows.ts';
import { isModelName, isStoredId, kinds, type StoredKind } from './kinds.ts';
import type { StoredObject } from './stored-object.ts';

/** Bytes of an answer that can be passed on, once the new object in them is recorded. */
export interface AnswerPart {
  readonly bytes: Buffer;
  /** @default nothing has to be recorded first */
  readonly created?: CreatedObject;
}

/** What is read of a new object: of its name, {@link longestName} characters at most, and as metadata what a list of its kind can be filtered by. */
export interface CreatedObject extends Pick<StoredObject, 'id' | 'name' | 'bytes' | 'metadata'> {
  readonly status: unknown;
}

/** What is kept of a name. Characters. */
const longestName = 256;

/** The most that is held until an id is known. Bytes. The first event of a response repeats the whole request. */
const holdLimit = 40 * 1024 * 1024;
/** An id that stands first in an answer, as OpenAI writes it. Bytes that are looked at. */
const headLength = 512;
const firstId = /^\s*\{\s*"id"\s*:\s*"([^"\\]*)"/;

/** What differs among the answers that create an object. */
export interface CreationOptions {
  /** @default it ends with the answer */
  readonly background?: BackgroundWork | undefined;
  /** The member of an answer in JSON that is the object. @default the answer itself */
  readonly member?: string | undefined;
  /** Whether an answer without an id is of no use, nor one to an account that does not own the object. @default false */
  readonly needsOwner?: boolean;
  /** Called when it is stored that the account owns the object. */
  readonly onOwned?: () => void;
}

/**
 * Finds the id of the new object in an answer that creates one. Holds the answer until then; in a stream, the events before the one
 * with the id can be passed on at once.
 */
export class CreatedObjectSearch {
  readonly #kind: StoredKind;
  readonly #options: CreationOptions;
  /** Whether more than the id is needed: then one JSON value is read to its end. */
  readonly #readsAll: boolean;
  #held: Buffer[] = [];
  #heldBytes = 0;
  /** Whether it is one JSON value; `undefined` until more than white space has come. */
  #isPlain: boolean | undefined;
  #triedHead = false;
  #isDone = false;

  constructor(kind: StoredKind, options: CreationOptions) {
    this.#kind = kind;
    this.#options = options;
    const { filter, describedBy } = kinds[kind];
    this.#readsAll = [options.background, options.member, filter, describedBy].some((need) => need !== undefined);
  }

  /**
   * @returns what can be passed on, in this order
   * @throws OutboundError `invalid_response` where the id is none that a provider gives, or does not come
   */
  read(chunk: Buffer): AnswerPart[] {
    if (this.#isDone) return [{ bytes: chunk }];
    this.#held.push(chunk);
    this.#heldBytes += chunk.length;
    if (this.#heldBytes > holdLimit) throw new OutboundError('invalid_response', 'the answer has no id');
    this.#isPlain ??= beginsAsJson(chunk);
    if (this.#isPlain === undefined) return [];
    if (this.#isPlain) return this.#searchHead();
    return chunk.includes('\n') || chunk.includes('\r') ? this.#searchEvents() : [];
  }

  /** What is left when the answer has ended. @throws OutboundError as `read` does */
  end(): AnswerPart[] {
    if (this.#isDone) return [];
    const text = Buffer.concat(this.#held).toString(this.#isPlain ? 'utf8' : 'latin1');
    const object = this.#isPlain ? memberOf(parsed(text) ?? {}, this.#options.member) : this.#objectOf(text);
    if (!hasId(object) && this.#options.needsOwner) throw new OutboundError('invalid_response', 'the answer has no id');
    return hasId(object) ? this.#found(object) : this.#release();
  }

  #searchHead(): AnswerPart[] {
    if (this.#readsAll || this.#triedHead || this.#heldBytes < headLength) return [];
    this.#triedHead = true;
    const id = firstId.exec(Buffer.concat(this.#held).toString('latin1', 0, headLength))?.[1];
    return id === undefined ? [] : this.#found({ id });
  }

  #searchEvents(): AnswerPart[] {
    const bytes = Buffer.concat(this.#held);
    const text = bytes.toString('latin1');
    let found: Fields | undefined;
    let from = 0;
    for (const { index, 0: end } of text.matchAll(betweenEvents)) {
      const object = this.#objectOf(text.slice(from, index));
      if (hasId(object)) {
        found = object;
        break;
      }
      from = index + end.length;
    }
    this.#held = [bytes.subarray(from)];
    this.#heldBytes = bytes.length - from;
    const before = from > 0 ? [{ bytes: bytes.subarray(0, from) }] : [];
    return found ? [...before, ...this.#found(found)] : before;
  }

  /** The object that an event is about. */
  #objectOf(event: string): Fields {
    return memberOf(parsed(dataOf(event)) ?? {}, kinds[this.#kind].eventMember);
  }

  #found({ id, status, ...others }: Fields): AnswerPart[] {
    if (!isStoredId(id)) throw new OutboundError('invalid_response', 'the answer has an id that no provider gives');
    const [first, ...rest] = this.#release() as [AnswerPart, ...AnswerPart[]];
    // in each API, members have names of their own
    const given = (members: readonly string[] = []) => members.map((member) => others[member]).find(isGiven);
    const textOf = (members?: readonly string[]): string | undefined => {
      const value = given(members);
      return typeof value === 'string' ? value : undefined;
    };
    const { filter, describedBy } = kinds[this.#kind];
    const attribute = filter === undefined ? undefined : textOf([filter]);
    const name = textOf(describedBy?.name)?.slice(0, longestName).toWellFormed();
    const bytes = given(describedBy?.bytes);
    const created = {
      ...{ id, status },
      ...(name !== undefined && { name }),
      // what is still being filled says 0
      ...(Number.isSafeInteger(bytes) && (bytes as number) > 0 && { bytes: bytes as number }),
      ...(attribute !== undefined && { metadata: { [filter as string]: attribute } }),
    };
    return [{ ...first, created }, ...rest];
  }

  #release(): AnswerPart[] {
    this.#isDone = true;
    const parts = this.#held.map((bytes) => ({ bytes }));
    this.#held = [];
    return parts;
  }
}

/** @param member @default the object itself */
function memberOf(object: Fields, member: string | undefined): Fields {
  return member === undefined ? object : ((object[member] ?? {}) as Fields);
}

const isGiven = (value: unknown): boolean => value !== undefined && value !== null;
const hasId = ({ id }: Fields): boolean => isGiven(id);

/** Something that an answer shows, of which its account may speak from then on. */
export interface ShownObject {
  readonly kind: 'item' | 'container' | 'container_file' | 'skill_version' | 'file' | 'model';
  readonly id: string;
  /** Of a file. @default none */
  readonly purpose?: string | undefined;
}

/** Reads what an answer shows while it passes. */
export interface ShownObjects {
  /** @returns what must be stored before this chunk is passed on */
  read(chunk: Buffer): readonly ShownObject[];
  /** What is left when the answer has ended. */
  rest(): readonly ShownObject[];
}

/** The members of an item that name it, or the container that it was made in. */
const naming = ['id', 'container_id', 'environment'];

/** What a member of an item names, if it is an id that a provider gives. */
function namedBy(member: string, value: unknown): ShownObject[] {
  if (member === 'environment') return namedBy('container_id', (value as Fields | null | undefined)?.container_id);
  const kind = member === 'id' ? 'item' : 'container';
  return isStoredId(value) ? [{ kind, id: value }] : [];
}

/** An item, and the container that it was made in. */
export function shownBy(item: Fields | null | undefined): ShownObject[] {
  return naming.flatMap((member) => namedBy(member, item?.[member]));
}

/** Reads the items in an answer, and their containers: those of a list in JSON, or those that a stream of events shows. */
export class AnsweredItems implements ShownObjects {
  readonly #list: string;
  #items: ShownObjects | undefined;

  /** @param list the member of the answer that has the items */
  constructor(list: 'output' | 'data') {
    this.#list = list;
  }

  read(chunk: Buffer): readonly ShownObject[] {
    if (this.#items === undefined) {
      const isJson = beginsAsJson(chunk);
      if (isJson === undefined) return [];
      // a list of input shows what clients have sent, which makes nothing theirs
      const wanted = { list: this.#list, names: this.#list === 'output' ? naming : ['id'] };
      this.#items = isJson ? shownMembers(wanted, namedBy, true) : new StreamedItems();
    }
    return this.#items.read(chunk);
  }

  rest(): readonly ShownObject[] {
    return this.#items?.rest() ?? [];
  }
}

/** Reads the container that a message of Anthropic's API was made in. It is due at once. */
export function answeredContainer(): ShownObjects {
  const message = new MessageReader();
  let shown: unknown;
  const rest = (): readonly ShownObject[] => {
    const { container: id } = message;
    if (id === shown || !isStoredId(id)) return [];
    shown = id;
    return [{ kind: 'container', id }];
  };
  return {
    read(chunk) {
      message.read(chunk);
      return rest();
    },
    rest,
  };
}

/** Reads the parts of an object in an answer, by their members that name them: those of a list, or the one that it is. */
export function answeredParts(kind: 'container_file' | 'skill_version', list: string | undefined): ShownObjects {
  const { partNames: names = [] } = kinds[kind];
  const wanted = { names, ...(list !== undefined && { list }) };
  return shownMembers(wanted, (_, id) => (isStoredId(id) ? [{ kind, id }] : []), true);
}

/** The longest key or value that is read, with its quotes and white space around it. Bytes. */
const longestMember = 4_096;

/**
 * Reads members of a JSON object, or of those in a list of it, however large its texts are, and holds nothing of these.
 * @param waitsForEnd whether what is found is due when the list has ended, in place of at once
 */
function shownMembers(
  wanted: { readonly list?: string; readonly names: readonly string[] },
  find: (name: string, value: unknown) => readonly ShownObject[],
  waitsForEnd = false,
): ShownObjects {
  const shown: ShownObject[] = [];
  let isDue = !waitsForEnd;
  const rest = (): readonly ShownObject[] => shown.splice(0);
  const members = new JsonMembers({
    ...wanted,
    keepLimit: longestMember,
    onMember: (name, value) => shown.push(...find(name, value)),
    onListEnd: () => {
      isDue = true;
    },
  });
  return {
    read(chunk) {
      members.read(chunk);
      return isDue ? rest() : [];
    },
    rest,
  };
}

/** What a member of an answer says that its upstream has made. */
function madeIn(name: string, value: unknown, { files = [], purpose, models = [] }: MadeRow): ShownObject[] {
  if (models.includes(name)) return isModelName(value) ? [{ kind: 'model', id: value }] : [];
  if (!files.includes(name)) return [];
  const ids: readonly unknown[] = Array.isArray(value) ? value : [value];
  return ids.filter(isStoredId).map((id) => ({ kind: 'file', id, purpose }));
}

/** What an object says that its upstream has made. */
export function madeObjects(object: Fields, row: MadeRow): ShownObject[] {
  return Object.entries(object).flatMap(([name, value]) => madeIn(name, value, row));
}

/** Reads what an answer says that its upstream has made. It is due at once. */
export function answeredObjects(row: MadeRow): ShownObjects {
  const { files = [], models = [], list } = row;
  const wanted = { ...(list && { list }), names: [...files, ...models] };
  return shownMembers(wanted, (name, value) => madeIn(name, value, row));
}

/** Reads the items that the events of a response show. They are due with its last event. */
class StreamedItems implements ShownObjects {
  readonly #events = new ItemEvents();
  #shown = new Map<string, ShownObject>();

  read(chunk: Buffer): readonly ShownObject[] {
    for (const { item } of this.#events.read(chunk)) {
      for (const shown of shownBy(item as Fields | null | undefined))
        this.#shown.set(`${shown.kind} ${shown.id}`, shown);
    }
    return this.#events.isEnded ? this.rest() : [];
  }

  rest(): readonly ShownObject[] {
    const shown = [...this.#shown.values()];
    this.#shown.clear();
    return shown;
  }
}
