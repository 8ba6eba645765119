import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ByteRange } from '../operation.ts';
import { type Level, scanInTurns, sliceLength } from './scan.ts';
import { ByteBuffer, isSpace, noBytes, StructureWalk, textAt } from './tokens.ts';

const quote = 0x22;
const colon = 0x3a;
const comma = 0x2c;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;
/** What begins each line of an event; an event's JSON can continue in the next line. */
const dataField = Buffer.from('data:');

/** A key whose values are searched for. Searches may share one. */
export interface SearchedKey {
  /** The key with its quotes. */
  readonly bytes: Buffer;
  /** The same without the first of them, which is the most frequent byte of JSON: it is found in a third of the time, or less. */
  readonly rest: Buffer;
  /** The first bytes of the values to find; other values are skipped. */
  readonly openings: readonly number[];
  /** Whether lists have numbers alone: such a list ends at the first bracket that closes. */
  readonly listsNumbers: boolean;
}

/**
 * @param openings `{` for objects, `"` for strings, `[` for lists
 * @param listsNumbers whether lists have numbers alone. @default true
 */
export function searchedKey(name: string, openings: string, listsNumbers = true): SearchedKey {
  const bytes = Buffer.from(`"${name}"`);
  return { bytes, rest: bytes.subarray(1), openings: [...Buffer.from(openings)], listsNumbers };
}

/** Where the JSON of an event continues in its next `data:` line (WHATWG HTML, 9.2.6); inside a JSON string no line can end. */
const nextDataLine = /(?:\r\n|\n|\r)data: ?/g;

/** `undefined` where it is no JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {}
  try {
    return JSON.parse(text.replace(nextDataLine, '\n'));
  } catch {
    return undefined;
  }
}

/**
 * Reads the values of one key out of JSON or an event stream, chunk by chunk, wherever they stand. It leaps from key to key: inside a
 * JSON string the quotes of the key would be escaped, so the bytes can only be a key. A scan of all tokens would take more than 1.3 times the
 * CPU for an answer of 1 KB, 5 times for images in base64 and 40 times for vectors. The cost grows with the bytes alone, not with the number of
 * chunks of a value.
 */
export class ValueReader {
  /** Whether some value was too large to be held. */
  hasLost = false;
  readonly #key: SearchedKey;
  readonly #keepLimit: number;
  #held: ByteBuffer | undefined;
  readonly #onValue: (value: unknown) => void;
  readonly #onOther: ((bytes: Buffer) => void) | undefined;
  #next: 'key' | 'colon' | 'value' | 'end of value' = 'key';
  /** How many bytes have come of the key, with which the last chunk ended, or of a line's `data:`, which a colon or value may follow. */
  #matched = 0;
  /** Goes through the present value; `undefined` in a list of numbers. */
  #walk: StructureWalk | undefined;

  /**
   * @param keepLimit the most that is held of an incomplete value. Bytes.
   * @param onValue gets `undefined` where the value is no JSON
   * @param onOther gets all other bytes. @default they are dropped
   */
  constructor(
    key: SearchedKey,
    keepLimit: number,
    onValue: (value: unknown) => void,
    onOther?: (bytes: Buffer) => void,
  ) {
    this.#key = key;
    this.#keepLimit = keepLimit;
    this.#onValue = onValue;
    this.#onOther = onOther;
  }

  read(bytes: Buffer): void {
    let other = 0;
    for (let at = 0; at < bytes.length; ) {
      if (this.#next === 'key') at = this.#findKey(bytes, at);
      else if (this.#next !== 'end of value') at = this.#findValue(bytes, at);
      else {
        if (at > other) this.#onOther?.(bytes.subarray(other, at));
        at = this.#readValue(bytes, at);
        other = at;
      }
    }
    if (other < bytes.length) this.#onOther?.(bytes.subarray(other));
  }

  /** What has come of a value whose end has not. */
  rest(): Buffer {
    return this.#held?.take() ?? noBytes;
  }

  /** @returns the index behind the value */
  #readValue(bytes: Buffer, start: number): number {
    const walk = this.#walk;
    let last = walk ? walk.next(bytes, start) : bytes.indexOf(closeBracket, start);
    while (walk && walk.depth > 0 && last < bytes.length) last = walk.next(bytes, last + 1);
    if (last === -1 || last === bytes.length) {
      // most values are whole in one chunk
      this.#held ??= new ByteBuffer(this.#keepLimit);
      const hasRoom = this.#held.add(bytes.subarray(start));
      if (!hasRoom) this.#next = 'key';
      this.hasLost ||= !hasRoom;
      return bytes.length;
    }
    this.#next = 'key';
    const end = bytes.subarray(start, last + 1);
    this.#onValue(parsed((this.#held?.take(end) ?? end).toString()));
    return last + 1;
  }

  /** @returns the index to continue from */
  #findKey(bytes: Buffer, start: number): number {
    const { bytes: key, rest } = this.#key;
    let end = -1;
    if (this.#matched > 0) {
      const missing = key.subarray(this.#matched, this.#matched + bytes.length);
      if (bytes.subarray(0, missing.length).equals(missing)) {
        this.#matched += missing.length;
        if (this.#matched < key.length) return bytes.length;
        end = missing.length;
      }
    }
    for (let index = start; end === -1 && index !== -1; ) {
      index = bytes.indexOf(rest, index + 1);
      if (index > 0 && bytes[index - 1] === quote) end = index + rest.length;
    }
    this.#matched = 0;
    if (end !== -1) {
      this.#next = 'colon';
      return end;
    }
    // the chunk may end inside the key: its only quotes are at its ends, so only the last quote can begin it
    let tail = bytes.length - 1;
    while (tail >= start && tail > bytes.length - key.length && bytes[tail] !== quote) tail -= 1;
    let length = 0;
    while (tail >= start && bytes[tail + length] === key[length]) length += 1;
    if (tail + length === bytes.length) this.#matched = length;
    return bytes.length;
  }

  /** @returns the index to continue from */
  #findValue(bytes: Buffer, start: number): number {
    let at = start;
    for (; at < bytes.length; at += 1) {
      if (bytes[at] === dataField[this.#matched]) this.#matched = (this.#matched + 1) % dataField.length;
      else if (this.#matched > 0 || !isSpace(bytes[at])) break;
    }
    if (at === bytes.length) return at;
    const byte = bytes[at] as number;
    if (this.#next === 'colon' && byte === colon) {
      this.#next = 'value';
      return at + 1;
    }
    const isFound = this.#next === 'value' && this.#key.openings.includes(byte);
    if (isFound) this.#walk = byte === openBracket && this.#key.listsNumbers ? undefined : new StructureWalk();
    this.#next = isFound ? 'end of value' : 'key';
    this.#matched = 0;
    return at;
  }
}

/** Which members are read, and who is told of them. */
interface WantedMembers {
  /** Of a text that is a list, the indexes of its items. */
  readonly names: readonly string[];
  /** Reads their values, which are not held then. */
  readonly into?: JsonMembers | undefined;
  /** The most that is held of a key or a value. Bytes. */
  readonly keepLimit: number;
  /** A member of the text that is a list: its objects are read, and not the text itself. */
  readonly list?: string;
  /**
   * @param value `undefined` where it is no JSON, or longer than `keepLimit`
   * @param length of the value, with white space around it. Bytes.
   */
  readonly onMember: (name: string, value: unknown, length: number) => void;
  /** An object of the list has come to its end. */
  readonly onItemEnd?: () => void;
  readonly onListEnd?: () => void;
}

/**
 * Reads some members out of a JSON object that comes in chunks, or of the objects of one of its lists, without holding the rest. What has
 * the same name deeper inside, or looks like it in a text, counts for nothing.
 */
export class JsonMembers {
  /** Whether the text has come to its end. */
  isWhole = false;
  readonly #wanted: WantedMembers;
  readonly #walk = new StructureWalk();
  readonly #held: ByteBuffer;
  #isInList = false;
  /** Of a text that is a list: of the item that comes. */
  #index: number | undefined;
  /** The member whose value comes; `undefined` where its key comes, or where it is not wanted. */
  #name: string | undefined;
  #isHeld = true;
  #length = 0;

  constructor(wanted: WantedMembers) {
    this.#wanted = wanted;
    this.#held = new ByteBuffer(wanted.keepLimit);
  }

  read(chunk: Buffer): void {
    const walk = this.#walk;
    /** Where what is not held yet of the present key or value begins. */
    let from = 0;
    for (let at = walk.next(chunk, 0); at < chunk.length && !this.isWhole; at = walk.next(chunk, at + 1)) {
      if (this.#step(chunk, from, at)) from = at + 1;
    }
    if (walk.depth > 0 && !this.isWhole) this.#hold(chunk, from, chunk.length);
  }

  /** @returns whether a key or a value begins behind the mark at `at` */
  #step(chunk: Buffer, from: number, at: number): boolean {
    const { depth } = this.#walk;
    const { list, onListEnd } = this.#wanted;
    const readDepth = this.#isInList ? 3 : 1;
    const byte = chunk[at];
    if (byte === openBrace || byte === openBracket) {
      if (depth === 2 && byte === openBracket && this.#name !== undefined && this.#name === list) {
        this.#isInList = true;
        this.#begin(undefined, false);
      } else if (depth === 3 && byte === openBrace && this.#isInList) {
        this.#begin(undefined, true);
        return true;
      }
      if (depth === 1 && byte === openBracket) this.#beginItem(0);
      return depth === 1;
    }
    if (byte === closeBrace || byte === closeBracket) {
      if (this.#isInList && depth === 1) {
        this.#isInList = false;
        onListEnd?.();
      } else if (depth < readDepth) {
        this.#endMember(chunk, from, at);
        if (this.#isInList) {
          this.#begin(undefined, false);
          this.#wanted.onItemEnd?.();
        } else this.isWhole = true;
      }
      return false;
    }
    if (depth !== readDepth) return false;
    if (byte === colon) this.#endKey(chunk, from, at);
    else if (byte === comma) {
      this.#endMember(chunk, from, at);
      if (this.#index !== undefined) this.#beginItem(this.#index + 1);
    } else if (this.#name === undefined) return false;
    else {
      // a text ends with its quote, even where nothing more comes
      this.#endMember(chunk, from, at + 1);
      this.#begin(undefined, false);
    }
    return true;
  }

  /** @param isHeld whether what follows is of interest: the next key, or the value of `name` */
  #begin(name: string | undefined, isHeld: boolean): void {
    this.#name = name;
    this.#isHeld = isHeld;
    this.#length = 0;
  }

  #beginItem(index: number): void {
    this.#index = index;
    const name = this.#wanted.names.find((each) => each === String(index));
    this.#begin(name, name !== undefined);
  }

  #hold(chunk: Buffer, from: number, to: number): void {
    const { into } = this.#wanted;
    const bytes = chunk.subarray(from, to);
    this.#length += bytes.length;
    if (into && this.#name !== undefined) into.read(bytes);
    else if (this.#isHeld) this.#isHeld = this.#held.add(bytes);
  }

  /** A key or a value whose rest is in the chunk; `undefined` where it is not JSON, or was not held. */
  #take(chunk: Buffer, from: number, to: number): unknown {
    this.#hold(chunk, from, to);
    if (!this.#isHeld) return undefined;
    try {
      return JSON.parse(this.#held.take().toString());
    } catch {
      return undefined;
    }
  }

  #endKey(chunk: Buffer, from: number, to: number): void {
    const key = this.#take(chunk, from, to);
    const { names, list } = this.#wanted;
    const isSought = list !== undefined && !this.#isInList;
    const name = (isSought ? [list] : names).find((each) => each === key);
    this.#begin(name, name !== undefined && !isSought);
  }

  #endMember(chunk: Buffer, from: number, to: number): void {
    const name = this.#name;
    const value = this.#take(chunk, from, to);
    const length = this.#length;
    this.#begin(undefined, true);
    const isWanted = name !== undefined && (this.#isInList || this.#wanted.list === undefined);
    if (isWanted) this.#wanted.onMember(name, value, length);
  }
}

/**
 * Reads the value that a JSON pointer leads to, in JSON that comes in chunks. It holds nothing on the way, so that no object or list is too long for it.
 * @param names that the pointer goes through, one at least. @param onValue gets `undefined` for one that is longer than 1 KiB
 */
export function pointerReader([name = '', ...rest]: readonly string[], onValue: (value: unknown) => void): JsonMembers {
  const into = rest.length > 0 ? pointerReader(rest, onValue) : undefined;
  return new JsonMembers({ names: [name], into, keepLimit: 1024, onMember: (_, value) => into ?? onValue(value) });
}

/** A text under one of the searched keys. */
export interface NamedText {
  /** In lower case. */
  readonly key: string;
  readonly text: string;
  /** Where it stands: `input[3].content[0].file_id`. */
  readonly path: string;
}

/**
 * Under these keys providers look up nothing: there stands what a client has made up, whatever its own keys are, and what an earlier answer
 * has said of a file, such as one that a container has made.
 */
const unread: ReadonlySet<string> = new Set([
  'metadata',
  'attributes',
  'parameters',
  'schema',
  'input_schema',
  'annotations',
  'results',
]);
/** Providers look up nothing either in what a tool was given in an earlier message of Anthropic's API: `messages[0].content[0].input`, also in a batch of these. */
function isToolInput(open: readonly Level[], i: number): boolean {
  if (open[i - 1]?.folded !== 'input' || open[i - 5]?.folded !== 'messages') return false;
  return i === 5 || (i === 8 && open[0]?.folded === 'requests');
}

/** Here clients choose the keys, and a value of any key may be a file: variables of a prompt. */
const freelyNamed = 'variables';

/** Whether a text is one that providers look up, by what it is in. */
function isLookedUp(open: readonly Level[]): boolean {
  // an object whose keys the client chooses, or a list in one, which has no key
  let isFree = false;
  let isKeyless = false;
  for (let i = 1; i < open.length; i += 1) {
    const parent = open[i - 1] as Level;
    const { isArray } = open[i] as Level;
    if (!isFree && !parent.isArray && unread.has(parent.folded)) return false;
    if (isToolInput(open, i)) return false;
    const isBelowFree: boolean = isFree || isKeyless;
    isFree = !isBelowFree && !isArray && parent.folded === freelyNamed;
    isKeyless = isBelowFree && isArray;
  }
  return !isFree && !isKeyless;
}

/** An ASCII letter or `_` as an escape, which no JSON writer makes of them. */
const escapedLetter = /\\u00[4-7]/;
const escapeStart = Buffer.from('\\u00');

/**
 * Whether a key may stand in the bytes. To look for bytes takes 74 µs for 200 KB with 400 calls of tools, an expression over their text 243 µs.
 * @param parts one of them is in the key, whatever its case @param isKey whether the one at `at` is part of the key
 */
export function mayHaveKey(
  bytes: Buffer,
  parts: readonly Buffer[],
  isKey: (bytes: Buffer, at: number) => boolean,
): boolean {
  for (const part of parts) {
    for (let at = bytes.indexOf(part); at !== -1; at = bytes.indexOf(part, at + part.length)) {
      if (isKey(bytes, at)) return true;
    }
  }
  return bytes.includes(escapeStart) && escapedLetter.test(bytes.toString('latin1'));
}

const underscores = [Buffer.from('_i'), Buffer.from('_I')];
/** The tool whose `container` may be the id of one; its type is written like this, whatever the case of its keys. */
const containerTool = Buffer.from('code_interpreter');

/**
 * Whether an underscore is that of `e_id`, `r_id`, `t_id` or `ill_id`, in any case: a part of nearly every searched key, and not of `tool_call_id`, nor of
 * `user_id` and `tool_use_id`, which messages of Anthropic's API have many of.
 */
function isOfId(bytes: Buffer, at: number): boolean {
  if (lowerAt(bytes, at + 2) !== 0x64) return false;
  const before = lowerAt(bytes, at - 1);
  if (before === 0x65 && lowerAt(bytes, at - 2) === 0x73 && lowerAt(bytes, at - 3) === 0x75) return false;
  if (before === 0x72 && lowerAt(bytes, at - 2) === 0x65 && lowerAt(bytes, at - 3) === 0x73) return false;
  return before === 0x65 || before === 0x72 || before === 0x74 || (before === 0x6c && lowerAt(bytes, at - 3) === 0x69);
}

/** A letter in lower case. */
function lowerAt(bytes: Buffer, at: number): number {
  return (bytes[at] as number) | 0x20;
}

/**
 * Whether a key of {@link namedTexts} may stand in the bytes: in nearly every body, none does.
 * @param from where to begin: of a long body, one slice is looked at in a turn of the event loop
 */
export function mayName(bytes: Buffer, from = 0): boolean | Promise<boolean> {
  // what stands across the end of a slice is in the next one, whole
  const slice = bytes.subarray(Math.max(0, from - containerTool.length), from + sliceLength);
  if (mayHaveKey(slice, underscores, isOfId) || slice.includes(containerTool)) return true;
  const to = from + sliceLength;
  return to < bytes.length && nextTurn().then(() => mayName(bytes, to));
}

/** What {@link namedTexts} looks for. */
interface Searched {
  /** In lower case, each with `e_id`, `r_id`, `t_id` or `ill_id` in it, or `container`, which counts beside a tool `code_interpreter`. */
  readonly keys: readonly string[];
  /** A longer text is given as '…'. Bytes. */
  readonly longest: number;
  /** The search ends when it has found one more. */
  readonly most: number;
  /** Keys whose texts are found wherever they stand, and not once each. @default none */
  readonly everywhere?: readonly string[];
}

/**
 * The texts under some keys in a JSON body, wherever they stand, each once: the value of a key, or in a list under it. A key in other case
 * counts, for some readers take it for the same. What stands in metadata, in a JSON schema or in a text counts for nothing.
 * @param bytes a JSON text that was found valid
 */
export async function namedTexts(
  bytes: Buffer,
  { keys, longest, most, everywhere = [] }: Searched,
): Promise<NamedText[]> {
  const found = new Map<string, NamedText>();
  await eachText(bytes, { keys, longest: 6 * longest }, ({ key, text, start, open }) => {
    const name = `${key} ${text}${everywhere.includes(key) ? ` ${start}` : ''}`;
    if (!found.has(name)) found.set(name, { key, text, path: pathOf(open) });
    return found.size <= most;
  });
  return [...found.values()];
}

/** A text under a searched key, with its quotes. */
interface VisitedText extends ByteRange, Pick<NamedText, 'key' | 'text'> {
  /** The objects and lists that it is in, from the outside. They change when the search goes on. */
  readonly open: readonly Level[];
}

/**
 * Visits the texts under some keys, as {@link namedTexts} does.
 * @param longest a longer text is given as '…'. Bytes, with its quotes. @param visit returns whether the search goes on
 */
export async function eachText(
  bytes: Buffer,
  { keys, longest }: Pick<Searched, 'keys' | 'longest'>,
  visit: (text: VisitedText) => boolean,
): Promise<void> {
  await scanInTurns(bytes, undefined, (start, end, levels, depth) => {
    const { folded: key = '' } = levels[depth - 1] ?? {};
    if (depth === 0 || !keys.includes(key)) return true;
    const open = levels.slice(0, depth);
    if (!isLookedUp(open)) return true;
    return visit({ key, text: end - start > longest ? '…' : textAt(bytes, start, end), start, end, open });
  });
}

/** Other keys are quoted in a path, so that it tells where it leads. */
const plainKey = /^[\w-]+$/;
/** A longer path is cut: nobody reads it. Characters. */
const longestPath = 256;

function pathOf(open: readonly Level[]): string {
  let path = '';
  for (const { isArray, key, index } of open) {
    path += isArray ? `[${index}]` : plainKey.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
    if (path.length > longestPath) return `${path.slice(1, longestPath)}…`;
  }
  return path.replace(/^\./, '');
}
