import { setImmediate as nextTurn } from 'node:timers/promises';
import { foldCase, StructureWalk, textAt } from './tokens.ts';

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

/** A part of every searched key, and an ASCII letter or `_` as an escape, which no JSON writer makes of them. */
const partOfKey = /e_id/i;
const escapedLetter = /\\u00[4-7]/;
const bytesOfPart = [Buffer.from('_i'), Buffer.from('_I'), Buffer.from('\\u00')];
/** What may be in the next slice. Bytes. */
const longestPart = '\\u00e'.length;

/** Whether one of the keys may stand in the bytes: in nearly every body, none does. */
async function mayHold(bytes: Buffer): Promise<boolean> {
  for (let from = 0; from < bytes.length; from += sliceLength) {
    if (from > 0) await nextTurn();
    const slice = bytes.subarray(from, from + sliceLength + longestPart);
    // to look for bytes is many times as fast as an expression over text, which tells for certain
    if (!bytesOfPart.some((part) => slice.includes(part))) continue;
    const text = slice.toString('latin1');
    if (partOfKey.test(text) || escapedLetter.test(text)) return true;
  }
  return false;
}

/**
 * The texts under some keys in a JSON body, wherever they stand: the value of a key, or in a list under it. A key in other case counts, for
 * some readers take it for the same. What stands in metadata, in a JSON schema or in a text counts for nothing.
 * @param bytes a JSON text that was found valid
 * @param keys in lower case, each with `e_id` in it
 * @param longest of a text, in bytes; a longer one is given as '…'
 */
export async function namedTexts(bytes: Buffer, keys: readonly string[], longest: number): Promise<NamedText[]> {
  if (!(await mayHold(bytes))) return [];
  const found: NamedText[] = [];
  const walk = new StructureWalk();
  const open: Open[] = [];
  let from = 0;
  let turnEnd = sliceLength;
  for (let at = walk.next(bytes, 0); at < bytes.length; at = walk.next(bytes, at + 1)) {
    if (at > turnEnd) {
      turnEnd = at + sliceLength;
      await nextTurn();
    }
    const top = open.at(-1);
    const mark = bytes[at];
    if (mark === 0x22) {
      const start = bytes.indexOf(0x22, from);
      if (top?.expectsKey) {
        top.key = at - start < longestKey ? textAt(bytes, start, at + 1) : '…';
        top.folded = foldCase(top.key);
      } else if (top && !top.isUnread && keys.includes(top.folded)) {
        const text = at - start < 6 * longest ? textAt(bytes, start, at + 1) : '…';
        found.push({ key: top.folded, text, path: pathOf(open) });
      }
    } else if (mark === 0x7b || mark === 0x5b) {
      const beginsUnread = top !== undefined && !top.isList && !top.isFreelyNamed && unread.has(top.folded);
      const isUnread = beginsUnread || top?.isUnread === true;
      const isList = mark === 0x5b;
      const { key, folded } = isList && top ? top : noKey;
      const isFreelyNamed = top?.folded === freelyNamed && !isList;
      open.push({ isList, key, folded, index: 0, expectsKey: !isList, isUnread, isFreelyNamed });
    } else if (mark === 0x7d || mark === 0x5d) open.pop();
    else if (mark === 0x3a && top) top.expectsKey = false;
    else if (mark === 0x2c && top) {
      top.index += 1;
      top.expectsKey = !top.isList;
    }
    from = at + 1;
  }
  return found;
}

function pathOf(open: readonly Open[]): string {
  return open
    .map(({ isList, key, index }) => (isList ? `[${index}]` : `.${key}`))
    .join('')
    .replace(/^\./, '');
}
