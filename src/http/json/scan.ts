import { isUtf8 } from 'node:buffer';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { GatewayError } from '../../errors.ts';
import type { FieldRange } from '../operation.ts';
import type { BodyShape } from './body-shape.ts';
import { isExactNumber } from './exact-number.ts';
import {
  endOfNumber,
  endOfShortString,
  foldCase,
  isShortDecimal,
  isShortInteger,
  isSpace,
  literalAt,
  NotJson,
  textAt,
  throughLongString,
  whereItBreaks,
} from './tokens.ts';

/**
 * A longer string is kept as `…`. Bytes. Without this limit, 2,048 texts to embed (900 KB) take 1.25 times the CPU of a whole
 * call (1.22 to 1.35 in five rounds), and a text of 32 MiB holds the event loop for 162 ms instead of 7, in 91 MB instead of 14.
 */
const keptString = 64;
/** How many keys an object with described properties may have. */
const maxKeys = 1_000;
/** A longer key is none that a visitor of texts looks for. Bytes, with its quotes. */
const longestKey = 256;
/** How many whole numbers at the start of an array are kept. Further ones, such as tokens, are only counted. */
const keptIntegers = 64;

const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const minus = 0x2d;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;

/**
 * What the scan expects next: a token, before which white space may come, or the rest of a long string. By their order: from `valueOrEnd` on an
 * end may come too, and from `restOfKey` on no token.
 */
const next = {
  value: 0,
  key: 1,
  colon: 2,
  nothing: 3,
  valueOrEnd: 4,
  keyOrEnd: 5,
  commaOrEnd: 6,
  restOfKey: 7,
  restOfValue: 8,
} as const;

/**
 * Checks a JSON text in one pass over its bytes, and builds a tree only of the parts that a shape describes. Other keys and
 * values, long strings and long lists of whole numbers take no memory. The memory of the tree is bounded before it exists.
 */
class JsonScan {
  /** The positions of described values, by path, such as `stream_options.include_usage`. */
  readonly fields = new Map<string, FieldRange>();
  /** The tree of the parts that the shape describes. */
  value: unknown;
  /**
   * Without a shape: the path of the first key that an object has twice, escaped in any way: `data.items[0]`.
   * `JSON.parse` keeps the last of two and says nothing; another reader may keep the first.
   */
  duplicateKey: string | undefined;
  /** Without a shape: the path of the first number that `JSON.parse` and `JSON.stringify` would change; '' for the body itself. */
  changedNumber: string | undefined;
  readonly #bytes: Buffer;
  /** Without a shape: counts the memory that `JSON.parse` would take, compares keys, and keeps nothing. */
  readonly #weighsAll: boolean;
  readonly #visit: TextVisitor | undefined;
  readonly #levels: Level[] = [];
  #depth = 0;
  #level: Level | undefined;
  #at = 0;
  #next: number = next.value;
  /** The shape of the next value. */
  #shape: BodyShape | undefined;
  #stringStart = 0;
  #partsLeft = maxParts;
  #numbers = 0;
  /** How many bytes the tree may still take. */
  #weightLeft: number;

  /** @throws GatewayError `invalid_encoding` */
  constructor(bytes: Buffer, shape?: BodyShape, visit?: TextVisitor) {
    if (!isUtf8(bytes)) throw new GatewayError('invalid_encoding', 'The body must be UTF-8');
    this.#bytes = bytes;
    this.#shape = shape;
    this.#visit = visit;
    this.#weighsAll = shape === undefined;
    this.#weightLeft = Math.min(largestTree, Math.max(smallTree, 2 * bytes.length));
  }

  /**
   * Scans on to about `until`.
   * @returns whether the text is complete
   * @throws GatewayError `invalid_json` for text that is not JSON (RFC 8259), `request_too_large`, `duplicate_parameter`, `unknown_parameter`
   */
  run(until: number): boolean {
    const bytes = this.#bytes;
    try {
      while (this.#at < until) {
        const byte = bytes[this.#at] as number;
        const expected = this.#next;
        const level = this.#level;
        if (expected >= next.restOfKey) this.#goOnWithString(until);
        else if (byte <= 0x20 && isSpace(byte)) this.#at += 1;
        else if (expected >= next.valueOrEnd && byte === (level?.isArray ? closeBracket : closeBrace)) this.#close();
        else if (expected === next.value || expected === next.valueOrEnd) this.#readValue(byte);
        else if (level && expected === next.commaOrEnd && byte === comma) {
          level.index += 1;
          this.#at += 1;
          this.#next = level.isArray ? next.value : next.key;
        } else if ((expected === next.key || expected === next.keyOrEnd) && byte === quote) {
          this.#readString(next.restOfKey);
        } else if (expected === next.colon && byte === colon) {
          this.#at += 1;
          this.#next = next.value;
        } else throw new NotJson(this.#at);
      }
      if (this.#at < bytes.length) return false;
      if (this.#next !== next.nothing) throw new NotJson(bytes.length);
      return true;
    } catch (error) {
      if (!(error instanceof NotJson)) throw error;
      throw new GatewayError('invalid_json', `The body is not valid JSON: ${whereItBreaks(bytes, error)}`);
    }
  }

  /** Reads a key or a value whose quote is at hand. @param rest what is expected in a long one */
  #readString(rest: typeof next.restOfKey | typeof next.restOfValue): void {
    const start = this.#at;
    const end = endOfShortString(this.#bytes, start);
    if (end === -1) {
      this.#stringStart = start;
      this.#at = start + 1;
      this.#next = rest;
    } else if (rest === next.restOfValue) this.#endString(start, end);
    else {
      const { shape } = this.#level as Level;
      if (shape && shape.properties.size > 0) this.#describeKey(shape, textAt(this.#bytes, start, end));
      this.#endKey(start, end);
    }
  }

  /** Goes on with a long string. */
  #goOnWithString(until: number): void {
    this.#at = throughLongString(this.#bytes, this.#at, until);
    if (this.#bytes[this.#at] !== quote) return;
    if (this.#next === next.restOfKey) this.#endKey(this.#stringStart, this.#at + 1);
    else this.#endString(this.#stringStart, this.#at + 1);
  }

  /** Finds the shape of the value of a key. @throws GatewayError `request_too_large`, `duplicate_parameter`, `unknown_parameter` */
  #describeKey({ path, properties, folded, isStrict }: BodyShape, key: string): void {
    const level = this.#level as Level;
    const shape = properties.get(key);
    level.key = key;
    this.#shape = shape;
    if (path === undefined && !isStrict) return;
    level.keys += 1;
    if (level.keys > maxKeys) throw tooLarge(`An object of the body has more than ${maxKeys} keys`);
    if (shape) {
      const isGiven =
        path === undefined ? Object.hasOwn(level.kept as object, key) : this.fields.has(String(shape.path));
      if (!isGiven) return;
      throw new GatewayError('duplicate_parameter', `'${key}' is given twice; give it once`, { param: key });
    }
    const meant = folded.get(foldCase(key));
    if (meant === undefined) return;
    // a case-insensitive reader would take it for the key that was checked
    throw new GatewayError('unknown_parameter', `'${key}' differs from '${meant}' only in case: write '${meant}'`, {
      param: key,
    });
  }

  #endKey(start: number, end: number): void {
    this.#spend(this.#weighsAll ? weights.key + end - start : 0, 1);
    if (this.#weighsAll) {
      const level = this.#level as Level;
      level.key = textAt(this.#bytes, start, end);
      level.seen ??= new Set();
      if (level.seen.has(level.key)) this.duplicateKey ??= this.#path();
      level.seen.add(level.key);
    } else if (this.#visit) {
      const level = this.#level as Level;
      level.key = end - start > longestKey ? '…' : textAt(this.#bytes, start, end);
      level.folded = foldCase(level.key);
    }
    this.#at = end;
    this.#next = next.colon;
  }

  #readValue(byte: number): void {
    const start = this.#at;
    const level = this.#level;
    if (level?.isArray) this.#shape = level.shape?.items;
    if (byte === quote) this.#readString(next.restOfValue);
    else if (byte === openBrace || byte === openBracket) this.#open(byte === openBracket);
    else if (byte === minus || (byte >= 0x30 && byte <= 0x39)) this.#readNumber(start);
    else {
      const { value, end } = literalAt(this.#bytes, start);
      this.#spend(this.#weighsAll || this.#shape ? weights.scalar : 0, 1);
      this.#finish(value, end, start);
    }
  }

  #readNumber(start: number): void {
    const bytes = this.#bytes;
    const end = endOfNumber(bytes, start);
    this.#numbers += 1;
    if (this.#numbers > maxNumbers) throw tooLarge(`The body has more than ${maxNumbers} numbers`);
    if (this.#weighsAll) {
      this.#spend(weights.scalar);
      if (this.changedNumber === undefined && !isShortDecimal(bytes, start, end)) {
        if (!isExactNumber(bytes.toString('latin1', start, end))) this.changedNumber = this.#path();
      }
    }
    const level = this.#level;
    if (this.#shape && level && level.integers >= keptIntegers && isShortInteger(bytes, start, end)) {
      level.integers += 1;
      this.#shape = undefined;
    }
    this.#finish(this.#shape && Number(bytes.toString('latin1', start, end)), end, start, 1);
  }

  #endString(start: number, end: number): void {
    if (this.#visit && !this.#visit(start, end, this.#levels, this.#depth)) {
      this.#at = this.#bytes.length;
      this.#next = next.nothing;
      return;
    }
    const shape = this.#shape;
    const isLong = end - start > (shape?.keptString ?? keptString);
    const isWeighed = this.#weighsAll || (!isLong && shape?.keptString !== undefined);
    const weight = this.#weighsAll || shape !== undefined ? weights.string : 0;
    this.#spend(isWeighed ? weight + end - start : weight, 1);
    this.#finish(shape && (isLong ? '…' : textAt(this.#bytes, start, end)), end, start);
  }

  #open(isArray: boolean): void {
    if (this.#depth === maxDepth) throw nestsTooDeep();
    const shape = this.#shape;
    this.#spend(this.#weighsAll || shape ? weights.container : 0, 1);
    // levels are reused: with new ones, a hostile body of a million lists takes 1.6 times the CPU
    this.#levels[this.#depth] ??= new Level();
    const level = this.#levels[this.#depth] as Level;
    level.isArray = isArray;
    level.shape = shape;
    level.kept = shape && (isArray ? [] : {});
    level.start = this.#at;
    level.numbersBefore = this.#numbers;
    level.index = 0;
    level.key = '';
    level.folded = isArray ? (this.#level?.folded ?? '') : '';
    level.keys = 0;
    level.seen = undefined;
    level.integers = 0;
    this.#depth += 1;
    this.#level = level;
    this.#shape = undefined;
    this.#at += 1;
    this.#next = isArray ? next.valueOrEnd : next.keyOrEnd;
  }

  #close(): void {
    const { shape, kept, start, numbersBefore } = this.#level as Level;
    this.#depth -= 1;
    this.#level = this.#depth === 0 ? undefined : this.#levels[this.#depth - 1];
    this.#shape = shape;
    this.#finish(kept, this.#at + 1, start, this.#numbers - numbersBefore);
  }

  /** Ends a value of the open level, or the whole text. @param numbers how many numbers the value has @throws GatewayError `request_too_large` */
  #finish(value: unknown, end: number, start: number, numbers = 0): void {
    const level = this.#level;
    const shape = this.#shape;
    this.#at = end;
    this.#shape = undefined;
    this.#next = level ? next.commaOrEnd : next.nothing;
    if (!shape) return;
    if (!level) this.value = value;
    else if (!level.isArray) {
      if (shape.path !== undefined) this.fields.set(shape.path, { start, end, numbers });
      (level.kept as Record<string, unknown>)[level.key] = value;
    } else {
      const items = level.kept as unknown[];
      const isInteger = Number.isInteger(value);
      if (level.integers >= 0 && isInteger) {
        level.integers += 1;
        // of very many whole numbers, only the first are kept
        if (level.integers > keptIntegers) return;
      } else if (level.integers >= 0) {
        // an error must name the index that the item has in the body
        this.#spend((level.integers - items.length) * weights.scalar);
        while (items.length < level.integers) items.push(0);
        level.integers = -1;
      }
      this.#spend(typeof value === 'number' && !isInteger ? weights.fraction : weights.scalar);
      items.push(value);
    }
  }

  /** The path of the value that comes: `data.items[0]`. */
  #path(): string {
    return this.#levels.slice(0, this.#depth).reduce((path, { isArray, index, key }) => {
      if (isArray) return `${path}[${index}]`;
      return path === '' ? key : `${path}.${key}`;
    }, '');
  }

  /**
   * Counts memory that the tree takes, before it exists.
   * @param weight bytes
   * @param parts 1 for a key, or a value that is not a number
   * @throws GatewayError `request_too_large`
   */
  #spend(weight: number, parts: 0 | 1 = 0): void {
    this.#partsLeft -= parts;
    if (this.#partsLeft < 0) throw tooLarge(`The body has more than ${maxParts} keys and values`);
    this.#weightLeft -= weight;
    if (this.#weightLeft < 0) throw tooLarge('The body has too many small values for its length');
  }
}

/**
 * Called for each text that is a value, with its quotes, and the objects and lists that it is in: of `levels`, from the outside, the first `depth`.
 * @returns whether the scan goes on
 */
type TextVisitor = (start: number, end: number, levels: readonly Level[], depth: number) => boolean;

/** An object or array that is open. */
export class Level {
  isArray = false;
  shape: BodyShape | undefined;
  /** The part of it that is kept; `undefined` when nothing is. */
  kept: Record<string, unknown> | unknown[] | undefined;
  start = 0;
  /** How many numbers the text has before it. */
  numbersBefore = 0;
  /** In an array: the index of the next item. */
  index = 0;
  /** In an object: the key whose value comes next. */
  key = '';
  /** Where texts are visited: the key as it is compared; in an array, that of the array. */
  folded = '';
  /** How many keys an object with described properties has so far. */
  keys = 0;
  /** The keys of an object so far, where duplicates are looked for. */
  seen: Set<string> | undefined;
  /** How many items an array has while all of them are whole numbers; -1 after any other item. */
  integers = 0;
}

/** How deep JSON may nest: more than any real body needs, and far less than BSON (200) and recursion allow. */
const maxDepth = 100;
/** Keys, strings, objects, arrays and literals that a body may have. */
const maxParts = 1_000_000;
/** Numbers that a body may have: one of the largest size may consist of tokens. */
const maxNumbers = 8_000_000;

/** About how many bytes V8 takes for each. */
const weights = { container: 64, key: 24, string: 24, fraction: 32, scalar: 8 } as const;
/** A tree may always take this many bytes, however small the body is. */
const smallTree = 4 * 1024 * 1024;
/** A tree may never take more bytes, however large the body is, because it is validated in one turn of the event loop. */
const largestTree = 8 * 1024 * 1024;

function tooLarge(message: string): GatewayError {
  return new GatewayError('request_too_large', message);
}

function nestsTooDeep(): GatewayError {
  return new GatewayError('invalid_json', `The body nests deeper than ${maxDepth} levels`);
}

/**
 * Refuses a parsed body that would cost too much to serialise again.
 * @throws GatewayError `invalid_json` when it nests deeper than 100 levels, `request_too_large` when it has too many values
 */
export function checkTree(value: unknown): void {
  let remaining = maxParts;
  const check = (node: unknown, levels: number): void => {
    remaining -= 1;
    if (remaining < 0) throw tooLarge(`The body has more than ${maxParts} values`);
    if (typeof node !== 'object' || node === null) return;
    if (levels === 0) throw nestsTooDeep();
    if (Array.isArray(node)) for (const item of node) check(item, levels - 1);
    else for (const key in node) check((node as Record<string, unknown>)[key], levels - 1);
  };
  check(value, maxDepth);
}

/** Bytes that are scanned in one turn of the event loop, which takes some milliseconds. */
export const sliceLength = 256 * 1024;

/** The parts of a JSON body that a relay reads; of values only what the shape describes, and strings of more than 64 bytes as `…`. */
type Outline = Pick<JsonScan, 'value' | 'fields'>;

/**
 * Decodes and parses a JSON body.
 * @throws GatewayError `invalid_encoding` when the bytes are not UTF-8; `invalid_json` when they are not JSON (RFC 8259)
 * or nest deeper than 100 levels; `request_too_large` when they would parse to too much;
 * `duplicate_parameter` when one object has a key twice; `number_not_exact` for a number that would be written again as another one
 */
export function parseJson(bytes: Buffer): unknown {
  const { changedNumber } = scanWhole(bytes);
  if (changedNumber !== undefined) {
    const problem = 'has more digits than JSON numbers keep, so it would change: send it as a string';
    if (changedNumber === '') throw new GatewayError('number_not_exact', `The body ${problem}`);
    throw new GatewayError('number_not_exact', `${changedNumber}: ${problem}`, { param: changedNumber });
  }
  return JSON.parse(bytes.toString('utf8'));
}

/**
 * Parses all of a JSON body that is relayed as it came, which {@link outline} has found to be JSON.
 * @throws GatewayError `request_too_large` when it would parse to too much, and `duplicate_parameter`: another reader might find another value than the
 * one that is checked
 */
export function parseWhole(bytes: Buffer): unknown {
  if (bytes.length > largestTree) throw tooLarge(`This endpoint takes at most ${largestTree} bytes of JSON`);
  scanWhole(bytes);
  return JSON.parse(bytes.toString('utf8'));
}

function scanWhole(bytes: Buffer): JsonScan {
  const scan = new JsonScan(bytes);
  scan.run(bytes.length);
  const { duplicateKey } = scan;
  if (duplicateKey === undefined) return scan;
  throw new GatewayError('duplicate_parameter', `${duplicateKey}: appears twice in the body; give it once`, {
    param: duplicateKey,
  });
}

/**
 * Reads the described parts of a body that is relayed as it came. Scans a long body in several turns of the event loop.
 * @throws GatewayError as {@link parseJson} does, but `duplicate_parameter` only for described keys outside lists, and
 * `unknown_parameter` for a key that differs from such a key only in case, which another reader might take for it
 */
export async function outline(bytes: Buffer, shape: BodyShape): Promise<Outline> {
  // joining its chunks has taken a turn already
  if (bytes.length > sliceLength) await nextTurn();
  return scanInTurns(bytes, shape);
}

/** Of a body whose texts alone are of interest. */
const noShape: BodyShape = { path: undefined, properties: new Map(), folded: new Map(), items: undefined };

/** Scans a body, a long one in several turns of the event loop. @throws GatewayError as {@link outline} does */
export async function scanInTurns(bytes: Buffer, shape = noShape, visit?: TextVisitor): Promise<JsonScan> {
  const scan = new JsonScan(bytes, shape, visit);
  for (let until = sliceLength; !scan.run(Math.min(bytes.length, until)); until += sliceLength) await nextTurn();
  return scan;
}
