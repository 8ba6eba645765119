/** The deepest nesting: MongoDB and many receivers' parsers stop at 100 to 200 levels. */
const depthLimit = 100;

/** A value that JSON would lose or change. */
export interface JsonProblem {
  /** The path of the value: `data.window.start`, `data.items[2]`. */
  readonly path: string;
  /** What is wrong and what to pass instead; completes a sentence that begins with the path. */
  readonly problem: string;
}

const identifier = /^[A-Za-z_$][\w$]*$/;

/** The path of a property: `data.amount`, or `data["a b"]` if the name is no identifier. */
export function propertyPath(parent: string, key: string): string {
  return identifier.test(key) ? `${parent}.${key}` : `${parent}[${JSON.stringify(key)}]`;
}

function primitiveProblem(value: unknown): string | undefined {
  switch (typeof value) {
    case 'undefined':
      return 'is undefined, which JSON drops; leave the field out or pass a value';
    case 'function':
      return 'is a function, which JSON drops';
    case 'symbol':
      return 'is a symbol, which JSON drops';
    case 'bigint':
      return 'is a bigint, which cannot be sent as JSON: send it as a string';
    case 'number':
      return Number.isFinite(value) ? undefined : `is ${value}, which JSON turns into null`;
    case 'string':
      return value.isWellFormed() ? undefined : 'has half of a surrogate pair, which has no UTF-8 form';
    default:
      return undefined;
  }
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  // Object.prototype of another realm counts, too: it has no prototype either
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function objectProblem(value: object): string | undefined {
  if (value instanceof Date) return 'is a Date; pass a string such as date.toISOString()';
  if (!isPlain(value)) return `is an instance of ${value.constructor?.name || 'a class'}; pass a plain object`;
  if (Object.getOwnPropertySymbols(value).length > 0) return 'has a symbol as a key, which JSON drops';
  return undefined;
}

function keyProblem(key: string): string | undefined {
  if (key.includes('\0')) return 'has a NUL character in its name';
  if (!key.isWellFormed()) return 'has half of a surrogate pair in its name, which has no UTF-8 form';
  return undefined;
}

function firstProblem(value: unknown, path: string, within: Set<object>): JsonProblem | undefined {
  const asPrimitive = primitiveProblem(value);
  if (asPrimitive) return { path, problem: asPrimitive };
  if (typeof value !== 'object' || value === null) return undefined;
  if (within.has(value)) return { path, problem: 'contains itself, which JSON cannot carry' };
  if (within.size >= depthLimit) return { path, problem: `is nested more than ${depthLimit} levels deep` };

  within.add(value);
  const nestedProblem = Array.isArray(value)
    ? problemInArray(value, path, within)
    : problemInObject(value, path, within);
  within.delete(value);
  return nestedProblem;
}

function problemInArray(items: readonly unknown[], path: string, within: Set<object>): JsonProblem | undefined {
  // by index: a hole in the array is seen as undefined
  for (let i = 0; i < items.length; i += 1) {
    const nestedProblem = firstProblem(items[i], `${path}[${i}]`, within);
    if (nestedProblem) return nestedProblem;
  }
  return undefined;
}

function problemInObject(value: object, path: string, within: Set<object>): JsonProblem | undefined {
  const problem = objectProblem(value);
  if (problem) return { path, problem };
  for (const [key, item] of Object.entries(value)) {
    const at = propertyPath(path, key);
    const inKey = keyProblem(key);
    const nestedProblem = inKey ? { path: at, problem: inKey } : firstProblem(item, at, within);
    if (nestedProblem) return nestedProblem;
  }
  return undefined;
}

/** The first value that JSON would change; `undefined` if there is none. */
export function jsonProblem(value: unknown, path: string): JsonProblem | undefined {
  return firstProblem(value, path, new Set());
}
