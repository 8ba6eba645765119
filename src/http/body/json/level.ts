import { GatewayError } from '../../../errors.ts';
import type { FieldRange } from '../../operation.ts';
import { type BodyShape, foldCase } from './body-shape.ts';
import { type JsonBudget, tooLarge } from './budget.ts';
import { keptIntegers, maxKeys, weights } from './limits.ts';

/** An object or array that is open. */
export class Level {
  isArray = false;
  shape: BodyShape | undefined;
  /** The part of it that is kept; `undefined` when nothing is. */
  kept: Record<string, unknown> | unknown[] | undefined;
  start = 0;
  /** How many numbers the text has before it. */
  numbersBefore = 0;
  /** In an object: the key whose value comes next. */
  key = '';
  /** In an array: the index of the next item. */
  index = 0;
  /** How many keys an object with described properties has so far. */
  keys = 0;
  /** The keys of an object so far, where duplicates are looked for. */
  seen: Set<string> | undefined;
  /** How many items an array has while all of them are whole numbers; -1 after any other item. */
  integers = 0;

  open(isArray: boolean, shape: BodyShape | undefined, start: number, numbersBefore: number): void {
    this.isArray = isArray;
    this.shape = shape;
    this.kept = shape && (isArray ? [] : {});
    this.start = start;
    this.numbersBefore = numbersBefore;
    this.index = 0;
    this.keys = 0;
    this.seen = undefined;
    this.integers = 0;
  }
}

/**
 * The shape of the value of a key in an open object.
 * @param fields the described keys so far
 * @throws GatewayError `request_too_large`, `duplicate_parameter`, `unknown_parameter`
 */
export function describedKey(
  level: Level,
  key: string,
  fields: ReadonlyMap<string, FieldRange>,
): BodyShape | undefined {
  const { path, properties, folded, isStrict } = level.shape as BodyShape;
  const shape = properties.get(key);
  level.key = key;
  if (path === undefined && !isStrict) return shape;
  level.keys += 1;
  if (level.keys > maxKeys) throw tooLarge(`An object of the body has more than ${maxKeys} keys`);
  if (shape) {
    const isGiven = path === undefined ? Object.hasOwn(level.kept as object, key) : fields.has(String(shape.path));
    if (!isGiven) return shape;
    throw new GatewayError('duplicate_parameter', `'${key}' is given twice; give it once`, { param: key });
  }
  const meant = folded.get(foldCase(key));
  if (meant === undefined) return undefined;
  // a case-insensitive reader would take it for the key that was checked
  throw new GatewayError('unknown_parameter', `'${key}' differs from '${meant}' only in case: write '${meant}'`, {
    param: key,
  });
}

/** Keeps an item of an open array, unless it is one of very many whole numbers. @throws GatewayError `request_too_large` */
export function keepItem(level: Level, value: unknown, budget: JsonBudget): void {
  const items = level.kept as unknown[];
  if (level.integers >= 0) {
    if (Number.isInteger(value)) {
      level.integers += 1;
      if (level.integers > keptIntegers) return;
    } else {
      // an error must name the index that the item has in the body
      budget.spend((level.integers - items.length) * weights.scalar);
      while (items.length < level.integers) items.push(0);
      level.integers = -1;
    }
  }
  budget.spendItem(value);
  items.push(value);
}

/** The path of the value inside these levels: `data.items[0]`. */
export function pathOf(levels: readonly Level[]): string {
  return levels.reduce((path, { isArray, index, key }) => {
    if (isArray) return `${path}[${index}]`;
    return path === '' ? key : `${path}.${key}`;
  }, '');
}
