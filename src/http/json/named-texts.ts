import { setImmediate as nextTurn } from 'node:timers/promises';
import { foldCase, StructureWalk, textAt } from './tokens.ts';

const quote = 0x22;
const colon = 0x3a;
const comma = 0x2c;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;

/** A text under one of the searched keys. */
export interface NamedText {
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
/** Here clients choose the keys, and a value of any key may be a file: variables of a prompt. */
const freelyNamed = 'variables';
/** A longer key is none of those that are searched for. Bytes, with its quotes. */
const longestKey = 256;
/** Bytes that are read in one turn of the event loop. */
const sliceLength = 256 * 1024;

/** An object or a list that is open. */
interface Open {
  readonly isList: boolean;
  /** The key of what comes; in a list, that of the list. */
  key: string;
  /** The same as it is compared. */
  folded: string;
  index: number;
  /** Whether the next text is a key. */
  expectsKey: boolean;
  readonly isUnread: boolean;
  /** Whether its keys are the client's choice. */
  readonly isFreelyNamed: boolean;
}

const noKey = { key: '', folded: '' };

/** An ASCII letter or `_` as an escape, which no JSON writer makes of them. */
const escapedLetter = /\\u00[4-7]/;
const escapeStart = Buffer.from('\\u00');
const underscores = [Buffer.from('_i'), Buffer.from('_I')];
/** The tool whose `container` may be the id of one; its type is written like this, whatever the case of its keys. */
const containerTool = Buffer.from('code_interpreter');

/** Whether `e_id`, `r_id`, `t_id` or `ill_id` stands in a slice, in any case: a part of nearly every searched key, and not of `tool_call_id`. */
function holdsPartOfKey(slice: Buffer): boolean {
  const lowerAt = (at: number): number => (slice[at] ?? 0) | 0x20;
  for (const needle of underscores) {
    for (let at = slice.indexOf(needle); at !== -1; at = slice.indexOf(needle, at + needle.length)) {
      if (lowerAt(at + needle.length) !== 0x64) continue;
      const before = lowerAt(at - 1);
      if (before === 0x65 || before === 0x72 || before === 0x74) return true;
      if (before === 0x6c && lowerAt(at - 3) === 0x69) return true;
    }
  }
  return false;
}

/**
 * Whether a key of {@link namedTexts} may stand in the bytes: in nearly every body, none does. To look for bytes takes 74 µs for 200 KB with 400 calls of tools, an
 * expression over their text 243 µs.
 */
export function mayName(bytes: Buffer): boolean | Promise<boolean> {
  return bytes.length > sliceLength ? someSliceMayName(bytes) : sliceMayName(bytes);
}

async function someSliceMayName(bytes: Buffer): Promise<boolean> {
  for (let from = 0; from < bytes.length; from += sliceLength) {
    if (from > 0) await nextTurn();
    // what stands across the end is in the next slice, whole
    if (sliceMayName(bytes.subarray(Math.max(0, from - containerTool.length), from + sliceLength))) return true;
  }
  return false;
}

function sliceMayName(slice: Buffer): boolean {
  if (holdsPartOfKey(slice) || slice.includes(containerTool)) return true;
  return slice.includes(escapeStart) && escapedLetter.test(slice.toString('latin1'));
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
  const walk = new StructureWalk();
  const open: Open[] = [];
  let from = 0;
  for (let start = 0; start < bytes.length; start += sliceLength) {
    if (start > 0) await nextTurn();
    const slice = bytes.subarray(start, start + sliceLength);
    for (let i = walk.next(slice, 0); i < slice.length; i = walk.next(slice, i + 1)) {
      const at = start + i;
      const top = open.at(-1);
      const mark = slice[i];
      if (mark === quote) {
        const begins = bytes.indexOf(quote, from);
        if (top?.expectsKey) {
          top.key = at - begins < longestKey ? textAt(bytes, begins, at + 1) : '…';
          top.folded = foldCase(top.key);
        } else if (top && !top.isUnread && !top.isFreelyNamed && keys.includes(top.folded)) {
          const text = at - begins < 6 * longest ? textAt(bytes, begins, at + 1) : '…';
          const name = `${top.folded} ${text}${everywhere.includes(top.folded) ? ` ${begins}` : ''}`;
          if (!found.has(name)) found.set(name, { key: top.folded, text, path: pathOf(open) });
          if (found.size > most) return [...found.values()];
        }
      } else if (mark === openBrace || mark === openBracket) open.push(opened(top, mark === openBracket));
      else if (mark === closeBrace || mark === closeBracket) open.pop();
      else if (mark === colon && top) top.expectsKey = false;
      else if (mark === comma && top) {
        top.index += 1;
        top.expectsKey = !top.isList;
      }
      from = at + 1;
    }
  }
  return [...found.values()];
}

/** An object or a list that begins as the value of a key, or in a list. */
function opened(top: Open | undefined, isList: boolean): Open {
  const isNamed = top !== undefined && !top.isFreelyNamed;
  const isUnread = top?.isUnread === true || (isNamed && !top.isList && unread.has(top.folded));
  // what is in a list under a key stands under that key
  const { key, folded } = isList && isNamed ? top : noKey;
  const isFreelyNamed = isNamed && top.folded === freelyNamed && !isList;
  return { isList, key, folded, index: 0, expectsKey: !isList, isUnread, isFreelyNamed };
}

/** Other keys are quoted in a path, so that it tells where it leads. */
const plainKey = /^[\w-]+$/;
/** A longer path is cut: nobody reads it. Characters. */
const longestPath = 256;

function pathOf(open: readonly Open[]): string {
  let path = '';
  for (const { isList, key, index } of open) {
    path += isList ? `[${index}]` : plainKey.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
    if (path.length > longestPath) return `${path.slice(1, longestPath)}…`;
  }
  return path.replace(/^\./, '');
}
