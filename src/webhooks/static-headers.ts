import { refuse } from '../errors.ts';

/** Headers of the owner's own, sent with each delivery: names and values. */
export type StaticHeaders = Readonly<Record<string, string>>;

const limits = { headers: 10, name: 64, value: 1_024 } as const;

/**
 * Headers that describe the connection or the body, or that the gateway sends itself (RFC 9110, RFC 9112); and names of functions of
 * axios' headers, which a header of that name would replace.
 */
const reserved: ReadonlySet<string> = new Set([
  'accept-encoding',
  'clear',
  'concat',
  'connection',
  'constructor',
  'date',
  'delete',
  'expect',
  'get',
  'has',
  'host',
  'http2-settings',
  'keep-alive',
  'normalize',
  'set',
  'te',
  'traceparent',
  'tracestate',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'user-agent',
  'via',
]);
const reservedPrefixes = ['content-', 'proxy-', 'webhook-', 'x-service-'] as const;

/** Never repeats a value in a message. */
function checkHeader(name: string, value: unknown): void {
  if (name.length > limits.name || !/^[A-Za-z][A-Za-z0-9_-]*$/.test(name)) {
    refuse(
      'invalid_value',
      'headers',
      `a name must have 1 to ${limits.name} letters, digits, - and _, and begin with a letter`,
    );
  }
  const param = `headers.${name}`;
  const lower = name.toLowerCase();
  if (reserved.has(lower) || reservedPrefixes.some((prefix) => lower.startsWith(prefix))) {
    refuse('invalid_value', param, 'is reserved for the gateway; use another name, such as x-api-key');
  }
  if (typeof value !== 'string') refuse('invalid_type', param, 'must be a string');
  if (value.length > limits.value) refuse('invalid_value', param, `must have at most ${limits.value} characters`);
  if (!/^[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?$/.test(value)) {
    refuse('invalid_value', param, 'must be visible ASCII characters, with spaces or tabs only between them');
  }
}

/**
 * Checks headers, and returns them with their names in lower case. `null` if there are none.
 * @throws GatewayError `invalid_type` or `invalid_value`, naming the header, never with a value in it
 */
export function checkedHeaders(headers: StaticHeaders | null): StaticHeaders | null {
  if (headers === null) return null;
  if (typeof headers !== 'object' || Array.isArray(headers)) {
    refuse('invalid_type', 'headers', 'must be an object of names and values, such as {"x-api-key": "…"}');
  }
  const entries = Object.entries(headers);
  if (entries.length === 0) return null;
  if (entries.length > limits.headers)
    refuse('invalid_value', 'headers', `must have at most ${limits.headers} headers`);
  const names = new Set<string>();
  for (const [name, value] of entries) {
    checkHeader(name, value);
    const lower = name.toLowerCase();
    if (names.has(lower)) refuse('invalid_value', `headers.${name}`, 'is named twice; names do not differ by case');
    names.add(lower);
  }
  return Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase(), value]));
}
