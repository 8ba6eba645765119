import { refuse } from '../errors.ts';
import { checkStorable } from '../ids.ts';
import type { WebhookDocument } from './model.ts';

/** What a webhook may have beside its URL and its types. */
export interface OptionalFields {
  /** What it is for, in the owner's words. At most 500 characters. */
  readonly description?: string;
  /** The owner's own values. At most 16 pairs, keys of at most 64 characters, values of at most 512. */
  readonly metadata?: Metadata;
  /** Sends only the events that have one of the values at every path. At most 10 paths with 50 values each. @default every event */
  readonly filters?: Filters;
  /** Requests a second to this webhook, by all processes together: 1 to 1,000. Those above wait. @default no limit */
  readonly rateLimit?: number;
}

/** Headers that are sent with each delivery; sealed before they are stored, and never shown. */
export interface WithHeaders {
  /** At most 10, such as `{ authorization: 'Bearer …' }`. None that the gateway sends itself can be set. */
  readonly headers?: StaticHeaders;
}

/** The names of the headers that are sent with each delivery. */
export interface WithHeaderNames {
  /** In lower case. @default none */
  readonly headerNames?: readonly string[];
}

/** A change of optional fields: `null`, or an empty value, removes a field. */
export type OptionalFieldsPatch = { readonly [Name in keyof OptionalFields]?: OptionalFields[Name] | null } & {
  readonly headers?: StaticHeaders | null;
};

type Stored = Pick<WebhookDocument, 'description' | 'metadata' | 'filters' | 'rateLimit'>;
/** The given fields as they are stored; `null` if a field is removed. */
type StoredPatch = { -readonly [Name in keyof Stored]?: Stored[Name] | null };

const fastest = 1_000;

/**
 * The entries of an object; none for `null`.
 * @param expected what it must be
 * @throws GatewayError `invalid_type` or `invalid_value`
 */
function entriesOf<Value>(
  param: string,
  given: Readonly<Record<string, Value>> | null,
  expected: string,
  [limit, noun]: readonly [number, string],
): [string, Value][] {
  if (given === null) return [];
  if (typeof given !== 'object' || Array.isArray(given))
    refuse('invalid_type', param, `must be an object of ${expected}`);
  const entries = Object.entries(given);
  if (entries.length > limit) refuse('invalid_value', param, `must have at most ${limit} ${noun}`);
  return entries;
}

/** @throws GatewayError `invalid_value` */
function checkLength(param: string, isTooLong: boolean, limit: number): void {
  if (isTooLong) refuse('invalid_value', param, `must have at most ${limit} characters`);
}

/** @throws GatewayError `invalid_type` or `invalid_value` */
function storedRateLimit(rateLimit: number | null): number | null {
  if (rateLimit === null || (Number.isInteger(rateLimit) && rateLimit >= 1 && rateLimit <= fastest)) return rateLimit;
  const reason = `must be a whole number from 1 to ${fastest}, requests a second; null lifts the limit`;
  refuse(typeof rateLimit === 'number' ? 'invalid_value' : 'invalid_type', 'rate_limit', reason);
}

/**
 * Checks optional fields.
 * @throws GatewayError `invalid_type` or `invalid_value`, naming the field
 */
export function toStored({ description, metadata, filters, rateLimit }: OptionalFieldsPatch): StoredPatch {
  return {
    ...(description !== undefined && { description: storedDescription(description) }),
    ...(metadata !== undefined && { metadata: storedMetadata(metadata) }),
    ...(filters !== undefined && { filters: storedFilters(filters) }),
    ...(rateLimit !== undefined && { rateLimit: storedRateLimit(rateLimit) }),
  };
}

/**
 * Checks headers, and seals them.
 * @throws GatewayError `invalid_type` or `invalid_value`, naming the header
 */
export function toStoredHeaders(headers: StaticHeaders | null | undefined, seal: (json: string) => string) {
  if (headers === undefined) return {};
  const checked = checkedHeaders(headers);
  if (checked === null) return { headers: null, headerNames: null };
  return { headers: seal(JSON.stringify(checked)), headerNames: Object.keys(checked) };
}

/** A value that a filter allows: what JSON calls a string, a number or a boolean. */
export type FilterValue = string | number | boolean;

/**
 * The values that each path of an event may have: `{ 'data.model': ['gpt-5'] }`. An event is sent to a webhook only if it has one
 * of the values at every path.
 */
export type Filters = Readonly<Record<string, readonly FilterValue[]>>;

const filterLimits = { paths: 10, pathLength: 200, values: 50, valueLength: 256, bytes: 4_096 } as const;

function checkPath(path: string): void {
  if (path.length > filterLimits.pathLength) {
    refuse('invalid_value', 'filters', `a path must have at most ${filterLimits.pathLength} characters`);
  }
  if (!/^data(\.[^.\0\p{Surrogate}]+)+$/u.test(path)) {
    refuse('invalid_value', 'filters', `'${path}' must be a path into the data of an event, such as data.model`);
  }
}

function checkValues(param: string, values: readonly FilterValue[]): void {
  if (!Array.isArray(values)) refuse('invalid_type', param, 'must be an array of the values to let through');
  if (values.length === 0 || values.length > filterLimits.values) {
    const reason = `must have 1 to ${filterLimits.values} values; leave the path out to let every value through`;
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
    const isTooLong = typeof value === 'string' && value.length > filterLimits.valueLength;
    checkLength(`${param}[${i}]`, isTooLong, filterLimits.valueLength);
  });
}

/**
 * Checks filters, and returns them as they are stored: as JSON, which an index can hold beside an array. `null` if there are none.
 * @throws GatewayError `invalid_type` or `invalid_value`, naming the path or the value
 */
function storedFilters(filters: Filters | null): string | null {
  const expected = 'paths and their values, such as {"data.model": ["gpt-5"]}';
  const entries = entriesOf('filters', filters, expected, [filterLimits.paths, 'paths']);
  if (entries.length === 0) return null;
  for (const [path, values] of entries) {
    checkPath(path);
    checkValues(`filters.${path}`, values);
  }
  const json = JSON.stringify(Object.fromEntries(entries));
  const bytes = Buffer.byteLength(json);
  if (bytes > filterLimits.bytes) {
    const reason = `must have at most ${filterLimits.bytes} bytes as JSON, not ${bytes}; name fewer values`;
    refuse('invalid_value', 'filters', reason);
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

/** An owner's own notes on a webhook. The gateway stores and returns them. */
export type Metadata = Readonly<Record<string, string>>;

const descriptionLimit = 500;
/** As OpenAI's metadata. */
const metadataLimits = { pairs: 16, key: 64, value: 512 } as const;

/** Counts characters, as JSON schemas do. */
function isLonger(text: string, limit: number): boolean {
  return text.length > 2 * limit || [...text].length > limit;
}

/**
 * Checks a description. `null` if it is empty.
 * @throws GatewayError `invalid_type` or `invalid_value`
 */
function storedDescription(description: string | null): string | null {
  if (description === null || description === '') return null;
  if (typeof description !== 'string') refuse('invalid_type', 'description', 'must be a string');
  checkLength('description', isLonger(description, descriptionLimit), descriptionLimit);
  checkStorable('description', description);
  return description;
}

/**
 * Checks metadata, and returns it as it is stored: as JSON, because a key may be anything, dots and `$` too. `null` if it is empty.
 * @throws GatewayError `invalid_type` or `invalid_value`, naming the key
 */
function storedMetadata(metadata: Metadata | null): string | null {
  const pairs = entriesOf('metadata', metadata, 'strings', [metadataLimits.pairs, 'pairs']);
  if (pairs.length === 0) return null;
  for (const [key, value] of pairs) {
    if (key === '' || isLonger(key, metadataLimits.key)) {
      refuse('invalid_value', 'metadata', `a key must have 1 to ${metadataLimits.key} characters`);
    }
    checkStorable('metadata', key);
    const param = `metadata.${key}`;
    if (typeof value !== 'string') refuse('invalid_type', param, 'must be a string');
    checkLength(param, isLonger(value, metadataLimits.value), metadataLimits.value);
    checkStorable(param, value);
  }
  return JSON.stringify(Object.fromEntries(pairs));
}

/** Headers of the owner's own, sent with each delivery: names and values. */
export type StaticHeaders = Readonly<Record<string, string>>;

const headerLimits = { headers: 10, name: 64, value: 1_024 } as const;

/**
 * Headers that describe the connection or the body, or that the gateway sends itself (RFC 9110, RFC 9112); and names of functions of
 * axios' headers, which a header of that name would replace.
 */
const reserved: ReadonlySet<string> = new Set(
  (
    'accept-encoding clear concat connection constructor date delete expect get has host http2-settings keep-alive normalize ' +
    'set te traceparent tracestate trailer transfer-encoding upgrade user-agent via'
  ).split(' '),
);
const reservedPrefixes = ['content-', 'proxy-', 'webhook-', 'x-service-'] as const;

/** Never repeats a value in a message. */
function checkHeader(name: string, value: unknown): void {
  if (name.length > headerLimits.name || !/^[A-Za-z][A-Za-z0-9_-]*$/.test(name)) {
    const reason = `a name must have 1 to ${headerLimits.name} letters, digits, - and _, and begin with a letter`;
    refuse('invalid_value', 'headers', reason);
  }
  const param = `headers.${name}`;
  const lower = name.toLowerCase();
  if (reserved.has(lower) || reservedPrefixes.some((prefix) => lower.startsWith(prefix))) {
    refuse('invalid_value', param, 'is reserved for the gateway; use another name, such as x-api-key');
  }
  if (typeof value !== 'string') refuse('invalid_type', param, 'must be a string');
  checkLength(param, value.length > headerLimits.value, headerLimits.value);
  if (!/^[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?$/.test(value)) {
    refuse('invalid_value', param, 'must be visible ASCII characters, with spaces or tabs only between them');
  }
}

/**
 * Checks headers, and returns them with their names in lower case. `null` if there are none.
 * @throws GatewayError `invalid_type` or `invalid_value`, naming the header, never with a value in it
 */
function checkedHeaders(headers: StaticHeaders | null): StaticHeaders | null {
  const expected = 'names and values, such as {"x-api-key": "…"}';
  const entries = entriesOf('headers', headers, expected, [headerLimits.headers, 'headers']);
  if (entries.length === 0) return null;
  const names = new Set<string>();
  for (const [name, value] of entries) {
    checkHeader(name, value);
    const lower = name.toLowerCase();
    if (names.has(lower)) refuse('invalid_value', `headers.${name}`, 'is named twice; names do not differ by case');
    names.add(lower);
  }
  return Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase(), value]));
}
