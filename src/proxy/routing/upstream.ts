import type { UpstreamOptions, UpstreamTimeouts } from '../../options/options.ts';
import { createDispatcher, createHttpClient, type HttpClient } from '../../outbound/client.ts';
import { splitUrl } from '../../outbound/exchange.ts';
import { type HeaderPlan, planHeaders } from '../headers.ts';
import { AwaitedResponses } from './awaited-responses.ts';
import { type Breaker, createBreaker } from './breaker.ts';
import { modelMatcher } from './model-matcher.ts';
import { StreamUsage } from './stream-usage.ts';
import { UpstreamCalls } from './upstream-calls.ts';

/** One provider, as the relay needs it. */
export interface Upstream {
  readonly name: string;
  /** Where its API starts, without a slash at the end: `https://api.example.com/v1`. */
  readonly baseUrl: string;
  /** The query of every request to it, with its `?`; empty where there is none. */
  readonly search: string;
  /** Its key is among them. */
  readonly headers: HeaderPlan;
  /** The models it serves, as they were configured. */
  readonly models: readonly string[];
  readonly aliases: Readonly<Record<string, string>>;
  readonly weight: number;
  readonly priority: number;
  readonly timeouts: Readonly<Required<UpstreamTimeouts>>;
  /** Whether its streams are asked for their usage. */
  readonly streamUsage: StreamUsage;
  /** Whether clients get a plain error in place of the upstream's. */
  readonly maskErrors: boolean;
  /** Whether it serves the model of this name, as callers write it. */
  serves(model: string): boolean;
  readonly http: HttpClient;
  readonly breaker: Breaker;
  /** Its calls under way. */
  readonly calls: UpstreamCalls;
  /** Its model calls that wait for a response. */
  readonly awaited: AwaitedResponses;
  /** Ends its connections; calls in flight break off. */
  close(): Promise<void>;
}

const defaultTimeouts: Required<UpstreamTimeouts> = {
  connect: 10_000,
  firstByte: 600_000,
  betweenChunks: 300_000,
  total: 3_600_000,
};

const defaultMaxConcurrency = 2_000;

function lowerCaseNames(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

/** The configured address without the slashes at the end of its path, and its query. */
function splitBaseUrl(baseUrl: string): { base: string; search: string } {
  const [address = '', ...query] = baseUrl.split('?');
  const { origin, path } = splitUrl(`${address.replace(/\/+$/, '')}/`);
  const search = query.join('?');
  return { base: (origin + path).slice(0, -1), search: search === '' ? '' : `?${search}` };
}

export function createUpstream(options: UpstreamOptions): Upstream {
  const { models = ['*'], aliases = {}, apiKey } = options;
  const timeouts = { ...defaultTimeouts, ...options.timeouts };
  const matches = modelMatcher(models);
  // each has its own connections and breaker: a slow upstream delays no other
  const dispatcher = createDispatcher({ connectTimeout: timeouts.connect });
  const { base, search } = splitBaseUrl(options.baseUrl);
  const configured = {
    ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
    ...lowerCaseNames(options.headers ?? {}),
  };
  const forwarded = (options.forwardHeaders ?? []).map((name) => name.toLowerCase());
  return {
    name: options.name,
    baseUrl: base,
    search,
    headers: planHeaders(configured, forwarded),
    models,
    aliases,
    weight: options.weight ?? 1,
    priority: options.priority ?? 0,
    timeouts,
    streamUsage: new StreamUsage(options.includeUsage ?? true),
    maskErrors: options.maskErrors ?? false,
    serves: (model) => Object.hasOwn(aliases, model) || matches(model),
    http: createHttpClient(dispatcher),
    breaker: createBreaker(),
    calls: new UpstreamCalls(options.maxConcurrency ?? defaultMaxConcurrency),
    awaited: new AwaitedResponses(timeouts.firstByte),
    close: () => dispatcher.destroy(),
  };
}

function parameterName(parameter: string): string | undefined {
  const [name] = new URLSearchParams(parameter).keys();
  return name?.toLowerCase();
}

/**
 * The address of a request to an upstream. The query of its base URL comes first, then the caller's unchanged, without
 * parameters that the base URL has too. Pure.
 * @param path below the base URL, with a slash
 * @param search the caller's query, with its `?`
 */
export function upstreamUrl(upstream: Pick<Upstream, 'baseUrl' | 'search'>, path: string, search = ''): string {
  const url = upstream.baseUrl + path;
  if (upstream.search === '') return url + search;
  const configured = new Set([...new URLSearchParams(upstream.search).keys()].map((name) => name.toLowerCase()));
  const parameters = search.slice(1).split('&');
  const added = parameters.filter((parameter) => parameter !== '' && !configured.has(parameterName(parameter) ?? ''));
  return [url + upstream.search, ...added].join('&');
}

/** The upstream's name for a model, by the name that callers use. */
export function upstreamModelName({ aliases }: Pick<Upstream, 'aliases'>, model: string): string {
  return Object.hasOwn(aliases, model) ? (aliases[model] as string) : model;
}

/** The longest that a call to any of these upstreams can take. Milliseconds. Pure. */
export function longestCall(upstreams: readonly Pick<UpstreamOptions, 'timeouts'>[]): number {
  return Math.max(0, ...upstreams.map(({ timeouts }) => timeouts?.total ?? defaultTimeouts.total));
}
