import { checkKeys, refuseOption } from '../checks.ts';

/** How long a provider may take. Milliseconds. */
export interface UpstreamTimeouts {
  /** Until a connection is made: name resolution, TCP and TLS together. @default 10_000 */
  readonly connect?: number;
  /** From sending the request to the first byte of the answer. @default 600_000, as long as OpenAI's clients wait */
  readonly firstByte?: number;
  /** Between two chunks of an answer. @default 300_000 */
  readonly betweenChunks?: number;
  /** For the whole call, retries included. @default 3_600_000 */
  readonly total?: number;
}

/** One provider that model calls are relayed to. */
export interface UpstreamOptions {
  /** A short name for logs and usage records. Sent to a client only with `exposeUpstream`. */
  readonly name: string;
  /**
   * Where its OpenAI-compatible API starts, `/v1` included: `https://api.openai.com/v1`. A query, such as Azure's
   * `?api-version=…`, is sent with every request; a caller's parameters follow it, but cannot replace its own.
   */
  readonly baseUrl: string;
  /** Sent up as `Authorization: Bearer …`. Never sent down, never logged. */
  readonly apiKey?: string;
  /** The models it serves: ids, or patterns where `*` matches anything: `gpt-*`. @default ['*'] */
  readonly models?: readonly string[];
  /** Names callers may use, and what this upstream calls the model: `{ fast: 'vendor/small-3' }`. @default {} */
  readonly aliases?: Readonly<Record<string, string>>;
  /** Its share of the calls among upstreams of the same priority. 0 makes it the last resort among them. @default 1 */
  readonly weight?: number;
  /** Lower comes first. The next priority gets a call when no upstream before it could answer. @default 0 */
  readonly priority?: number;
  /** Headers sent with every request to it. They override the caller's. @default {} */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * Names of further headers of the caller that are sent to it. Never `authorization` or `cookie`. All accounts share the
   * `apiKey`: a header such as `openai-organization` lets every caller choose the provider's account that is charged.
   * @default []
   */
  readonly forwardHeaders?: readonly string[];
  /** How long it may take. @default those of `UpstreamTimeouts` */
  readonly timeouts?: UpstreamTimeouts;
  /**
   * Calls under way to it at once, in this process. One account may have two thirds of what the others leave. Beyond that
   * its calls go to another upstream that serves the model, or get 429 `rate_limit_exceeded`. @default 2_000
   */
  readonly maxConcurrency?: number;
  /**
   * Whether the gateway asks for the usage of streams (`stream_options.include_usage`), for metering. If the upstream refuses that, streams
   * of the same model are not asked again for an hour, in this process; the log says so once. @default true
   */
  readonly includeUsage?: boolean;
  /**
   * Whether clients get a plain error in place of what it says with 429 and 5xx, which may name your account there, its
   * organization and its limits. The status and `retry-after` stay. The log gets the text, shortened and without keys.
   * @default false (its errors are relayed as they come)
   */
  readonly maskErrors?: boolean;
}

const knownOptions = [
  'name',
  'baseUrl',
  'apiKey',
  'models',
  'aliases',
  'weight',
  'priority',
  'headers',
  'forwardHeaders',
  'timeouts',
  'maxConcurrency',
  'includeUsage',
  'maskErrors',
];
const knownTimeouts = ['connect', 'firstByte', 'betweenChunks', 'total'];
const headerName = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** Hop-by-hop and framing headers (RFC 9110, section 7.6.1), which belong to a connection and not to a request. */
const connectionHeaders = /^(connection|content-length|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade)$/i;
const callersOwn = /^(authorization|cookie|proxy-authorization)$/i;

function checkStrings(param: string, values: unknown): asserts values is readonly string[] {
  if (!Array.isArray(values) || !values.every((value) => typeof value === 'string' && value !== '')) {
    refuseOption(param, 'must be a list of non-empty strings');
  }
}

function checkRecord(param: string, record: unknown): void {
  if (typeof record !== 'object' || record === null || Array.isArray(record)) refuseOption(param, 'must be an object');
  for (const [key, value] of Object.entries(record)) {
    if (typeof value !== 'string' || value === '') refuseOption(`${param}.${key}`, 'must be a non-empty string');
  }
}

function checkHeaderNames(param: string, names: readonly string[], refused: RegExp): void {
  for (const name of names) {
    if (!headerName.test(name) || refused.test(name))
      refuseOption(`${param}.${name}`, 'is not a header that may be set');
  }
}

function checkNumber(param: string, value: unknown, min: number): void {
  if (typeof value !== 'number' || !Number.isFinite(value) || value < min)
    refuseOption(param, `must be a number, ${min} or more`);
}

function checkWholeNumber(param: string, value: unknown, min: number): void {
  if (!Number.isSafeInteger(value) || (value as number) < min)
    refuseOption(param, `must be a whole number, ${min} or more`);
}

function checkUpstream(param: string, upstream: UpstreamOptions): void {
  checkKeys(param, upstream, knownOptions);
  if (typeof upstream.name !== 'string' || !/^[\x21-\x7e]+$/.test(upstream.name)) {
    refuseOption(`${param}.name`, 'must be a non-empty string of printable ASCII without spaces');
  }
  const { baseUrl } = upstream;
  if (!/^https?:/i.test(baseUrl) || !URL.canParse(baseUrl) || new URL(baseUrl).hash) {
    refuseOption(`${param}.baseUrl`, 'must be an http or https URL such as https://api.openai.com/v1');
  }
  if (upstream.models !== undefined) checkStrings(`${param}.models`, upstream.models);
  if (upstream.aliases !== undefined) checkRecord(`${param}.aliases`, upstream.aliases);
  if (upstream.headers !== undefined) {
    checkRecord(`${param}.headers`, upstream.headers);
    checkHeaderNames(`${param}.headers`, Object.keys(upstream.headers), connectionHeaders);
  }
  if (upstream.forwardHeaders !== undefined) {
    checkStrings(`${param}.forwardHeaders`, upstream.forwardHeaders);
    checkHeaderNames(`${param}.forwardHeaders`, upstream.forwardHeaders, connectionHeaders);
    checkHeaderNames(`${param}.forwardHeaders`, upstream.forwardHeaders, callersOwn);
  }
  if (upstream.weight !== undefined) checkNumber(`${param}.weight`, upstream.weight, 0);
  if (upstream.priority !== undefined) checkNumber(`${param}.priority`, upstream.priority, Number.MIN_SAFE_INTEGER);
  if (upstream.maxConcurrency !== undefined) checkWholeNumber(`${param}.maxConcurrency`, upstream.maxConcurrency, 1);
  checkKeys(`${param}.timeouts`, upstream.timeouts ?? {}, knownTimeouts);
  for (const [name, value] of Object.entries(upstream.timeouts ?? {})) {
    if (value !== undefined) checkNumber(`${param}.timeouts.${name}`, value, 1);
  }
  for (const name of ['includeUsage', 'maskErrors'] as const) {
    if (upstream[name] !== undefined && typeof upstream[name] !== 'boolean') {
      refuseOption(`${param}.${name}`, 'must be true or false');
    }
  }
}

/**
 * Checks the list of upstreams.
 * @throws GatewayError `invalid_options`, naming the option
 */
export function checkUpstreams(upstreams: readonly UpstreamOptions[]): void {
  if (!Array.isArray(upstreams)) refuseOption('upstreams', 'must be a list');
  const names = new Set<string>();
  upstreams.forEach((upstream, i) => {
    checkUpstream(`upstreams[${i}]`, upstream);
    if (names.has(upstream.name)) refuseOption(`upstreams[${i}].name`, `'${upstream.name}' is used twice`);
    names.add(upstream.name);
  });
}
