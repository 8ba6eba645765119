import { setImmediate as nextTurn } from 'node:timers/promises';
import type { ByteRange } from '../operation.ts';
import { type Level, scanInTurns, sliceLength } from './scan.ts';
import { textAt } from './tokens.ts';

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

/** Whether an underscore is that of `e_id`, `r_id`, `t_id` or `ill_id`, in any case: a part of nearly every searched key, and not of `tool_call_id`. */
function isOfId(bytes: Buffer, at: number): boolean {
  if (lowerAt(bytes, at + 2) !== 0x64) return false;
  const before = lowerAt(bytes, at - 1);
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
