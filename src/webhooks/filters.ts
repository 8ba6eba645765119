import { refuse } from '../errors.ts';

/** A value that a filter allows: what JSON calls a string, a number or a boolean. */
export type FilterValue = string | number | boolean;

/**
 * The values that each path of an event may have: `{ 'data.model': ['gpt-5'] }`. An event is sent to a webhook only if it has one
 * of the values at every path.
 */
export type Filters = Readonly<Record<string, readonly FilterValue[]>>;

const limits = { paths: 10, pathLength: 200, values: 50, valueLength: 256, bytes: 4_096 } as const;

const example = '{"data.model": ["gpt-5"]}';

function checkPath(path: string): void {
  if (path.length > limits.pathLength) {
    refuse('invalid_value', 'filters', `a path must have at most ${limits.pathLength} characters`);
  }
  if (!/^data(\.[^.\0\p{Surrogate}]+)+$/u.test(path)) {
    refuse('invalid_value', 'filters', `'${path}' must be a path into the data of an event, such as data.model`);
  }
}

function checkValues(param: string, values: readonly FilterValue[]): void {
  if (!Array.isArray(values)) refuse('invalid_type', param, 'must be an array of the values to let through');
  if (values.length === 0 || values.length > limits.values) {
    const reason = `must have 1 to ${limits.values} values; leave the path out to let every value through`;
    refuse('invalid_value', param, reason);
  }
  values.forEach((value, i) => {
    if (typeof value === 'bigint') {
      refuse('invalid_type', `${param}[${i}]`, 'is a bigint, which cannot be sent as JSON: send it as a string');
    }
    const isNumber = typeof value === 'number' && Number.isFinite(value);
    if (typeof value !== 'string' && typeof value !== 'boolean' && !isNumber) {
      refuse('invalid_type', `${param}[${i}]`, 'must be a string, a number or a boolean');
    }
    if (typeof value === 'string' && value.length > limits.valueLength) {
      refuse('invalid_value', `${param}[${i}]`, `must have at most ${limits.valueLength} characters`);
    }
  });
}

/**
 * Checks filters, and returns them as they are stored: as JSON, which an index can hold beside an array. `null` if there are none.
 * @throws GatewayError `invalid_type` or `invalid_value`, naming the path or the value
 */
export function storedFilters(filters: Filters | null): string | null {
  if (filters === null) return null;
  if (typeof filters !== 'object' || Array.isArray(filters)) {
    refuse('invalid_type', 'filters', `must be an object of paths and their values, such as ${example}`);
  }
  const entries = Object.entries(filters);
  if (entries.length === 0) return null;
  if (entries.length > limits.paths) refuse('invalid_value', 'filters', `must have at most ${limits.paths} paths`);
  for (const [path, values] of entries) {
    checkPath(path);
    checkValues(`filters.${path}`, values);
  }
  const json = JSON.stringify(Object.fromEntries(entries));
  const bytes = Buffer.byteLength(json);
  if (bytes > limits.bytes) {
    refuse(
      'invalid_value',
      'filters',
      `must have at most ${limits.bytes} bytes as JSON, not ${bytes}; name fewer values`,
    );
  }
  return json;
}

/** The value at a path, through the fields of objects alone. */
function valueAt(event: unknown, path: string): unknown {
  let value = event;
  for (const name of path.split('.')) {
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    if (!isObject || !Object.hasOwn(value as object, name)) return undefined;
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}

/** Whether the event, as its receivers get it, passes every filter. */
export function passes(filters: Filters, event: unknown): boolean {
  return Object.entries(filters).every(([path, values]) => values.includes(valueAt(event, path) as FilterValue));
}
