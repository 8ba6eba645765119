import { type Dialect, dialects } from '../errors.ts';
import { type Check, checkKeys, isObject, objectOf, proxyUrl, refuseOption, unchecked, yesOrNo } from './kinds.ts';

/** How long a provider may take. Milliseconds. */
export interface UpstreamTimeouts {
  /** Until a connection is made: name resolution, TCP and TLS together. @default 10_000 @when it is far away, or must be given up sooner */
  readonly connect?: number;
  /** From sending the request to the first byte of the answer. @default 600_000, as long as OpenAI's clients wait @when its models think longer, or clients must get 504 sooner; no other upstream takes over then */
  readonly firstByte?: number;
  /** Between two chunks of an answer. @default 300_000 @when its streams pause longer, or must be given up sooner */
  readonly betweenChunks?: number;
  /** For the whole call, retries included. @default 3_600_000 @when no call may take so long */
  readonly total?: number;
}

/** One provider that model calls are relayed to. */
export interface UpstreamOptions {
  /** A short name for logs and usage records. Sent to a client only with `modelCalls.exposeUpstream`. @when always */
  readonly name: string;
  /**
   * Where its API starts, `/v1` included: `https://api.openai.com/v1`, `https://api.anthropic.com/v1`. A query, such as Azure's
   * `?api-version=…`, is sent with every request; a caller's parameters follow it, but cannot replace its own.
   * @when always
   */
  readonly baseUrl: string;
  /**
   * Sent up as `Authorization: Bearer …`; as `x-api-key` where it speaks Anthropic's API alone. Where it takes its key in the other one, write that
   * into `headers` instead. Never sent down, never logged. @when it needs a key
   */
  readonly apiKey?: string;
  /**
   * The APIs that it speaks, OpenAI's and Anthropic's: `/v1/messages` goes to upstreams that speak Anthropic's, every other call to those that speak
   * OpenAI's. Nothing is translated. @default ['openai'] @when it speaks Anthropic's API
   */
  readonly speaks?: readonly Dialect[];
  /** The models it serves: ids, or patterns where `*` matches anything: `gpt-*`. Fine-tuned models, whose names begin with `ft:`, only where it begins so too. @default ['*'] @when you have several upstreams */
  readonly models?: readonly string[];
  /** Names callers may use, and what this upstream calls the model: `{ fast: 'vendor/small-3' }`. @default {} @when callers must not depend on its names */
  readonly aliases?: Readonly<Record<string, string>>;
  /** Its share of the calls among upstreams of the same priority. 0 makes it the last resort among them. @default 1 @when several serve the same model */
  readonly weight?: number;
  /** Lower comes first. The next priority gets a call when no upstream before it could answer. @default 0 @when it is a fallback */
  readonly priority?: number;
  /** Headers sent with every request to it. They override the caller's. @default {} @when it wants more than a bearer token */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * Names of further headers of the caller that are sent to it. Never `authorization`, `x-api-key` or `cookie`. All accounts share the
   * `apiKey`: a header such as `openai-organization` lets every caller choose the provider's account that is charged.
   * @default []
   * @when it reads more of your callers' headers
   */
  readonly forwardHeaders?: readonly string[];
  /** How long it may take. @default those of `UpstreamTimeouts` @when it is slower or faster than others */
  readonly timeouts?: UpstreamTimeouts;
  /**
   * Calls under way to it at once, in this process. One account may have two thirds of what the others leave. Beyond that
   * its calls go to another upstream that serves the model, or get 429 `rate_limit_exceeded`. @default 2_000 @when it takes less at once
   */
  readonly maxConcurrency?: number;
  /**
   * Whether the gateway asks for the usage of streams (`stream_options.include_usage`), for metering. If the upstream refuses that, streams
   * of the same model are not asked again for an hour, in this process; the log says so once. @default true @when it refuses that, or bills for it
   */
  readonly includeUsage?: boolean;
  /**
   * Whether clients get a plain error in place of what it says with 429 and 5xx, which may name your account there, its
   * organization and its limits. The status and `retry-after` stay. The log gets the text, shortened and without keys.
   * @default false (its errors are relayed as they come)
   * @when your clients must not learn who you buy from
   */
  readonly maskErrors?: boolean;
  /** The proxy that calls and WebSockets to it go through; `false` is none. @default the option `proxy` @when it is reached in another way than the others */
  readonly proxy?: string | false;
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

/** Hop-by-hop and framing headers (RFC 9110, section 7.6.1), which belong to a connection and not to a request. */
const connectionHeaders = /^(connection|content-length|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade)$/i;
const callersOwn = /^(authorization|cookie|proxy-authorization|x-api-key)$/i;

const checks: { readonly [Name in keyof Required<UpstreamOptions>]: Check } = {
  name(param, name) {
    if (typeof name === 'string' && /^[\x21-\x7e]+$/.test(name)) return;
    refuseOption(param, 'must be a non-empty string of printable ASCII without spaces');
  },
  baseUrl(param, url) {
    if (typeof url === 'string' && /^https?:/i.test(url) && URL.canParse(url) && !new URL(url).hash) return;
    refuseOption(param, 'must be an http or https URL such as https://api.openai.com/v1');
  },
  apiKey: unchecked,
  speaks(param, given) {
    const areDialects = Array.isArray(given) && given.length > 0 && given.every((name) => dialects.includes(name));
    if (!areDialects) refuseOption(param, `must be a list of ${dialects.join(', ')}, such as ['openai', 'anthropic']`);
  },
  models: checkStrings,
  aliases: checkTexts,
  weight: (param, weight) => checkNumber(param, weight, 0),
  priority: (param, priority) => checkNumber(param, priority, Number.MIN_SAFE_INTEGER),
  headers(param, headers) {
    checkTexts(param, headers);
    checkHeaderNames(param, Object.keys(headers), connectionHeaders);
  },
  forwardHeaders(param, names) {
    checkStrings(param, names);
    checkHeaderNames(param, names, connectionHeaders);
    checkHeaderNames(param, names, callersOwn);
  },
  timeouts(param, timeouts) {
    const given = (timeouts ?? {}) as UpstreamTimeouts;
    checkKeys(param, given, ['connect', 'firstByte', 'betweenChunks', 'total'] satisfies (keyof UpstreamTimeouts)[]);
    for (const [name, value] of Object.entries(given)) {
      if (value !== undefined) checkNumber(`${param}.${name}`, value, 1);
    }
  },
  maxConcurrency(param, most) {
    if (!Number.isSafeInteger(most) || (most as number) < 1) refuseOption(param, 'must be a whole number, 1 or more');
  },
  includeUsage: yesOrNo.check,
  maskErrors: yesOrNo.check,
  proxy(param, proxy) {
    if (proxy !== false) proxyUrl.check(param, proxy);
  },
};

const checkUpstream = objectOf(checks, ['name', 'baseUrl']);

function checkStrings(param: string, values: unknown): asserts values is readonly string[] {
  if (!Array.isArray(values) || !values.every((value) => typeof value === 'string' && value !== '')) {
    refuseOption(param, 'must be a list of non-empty strings');
  }
}

function checkTexts(param: string, record: unknown): asserts record is Readonly<Record<string, string>> {
  if (!isObject(record)) refuseOption(param, 'must be an object');
  for (const [key, value] of Object.entries(record)) {
    if (typeof value !== 'string' || value === '') refuseOption(`${param}.${key}`, 'must be a non-empty string');
  }
}

function checkHeaderNames(param: string, names: readonly string[], refused: RegExp): void {
  for (const name of names) {
    if (!/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(name) || refused.test(name))
      refuseOption(`${param}.${name}`, 'is not a header that may be set');
  }
}

function checkNumber(param: string, value: unknown, min: number): void {
  if (typeof value !== 'number' || !Number.isFinite(value) || value < min)
    refuseOption(param, `must be a number, ${min} or more`);
}
