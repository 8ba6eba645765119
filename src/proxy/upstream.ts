import type { IncomingHttpHeaders } from 'node:http';
import { type Dialect, GatewayError } from '../errors.ts';
import type { ApiRequest } from '../http/operation.ts';
import type { UpstreamOptions, UpstreamTimeouts } from '../options/options.ts';
import { createDispatcher, createHttpClient, type HttpClient, type RequestConfig } from '../outbound/client.ts';
import { type Connect, createTunnelConnect } from '../outbound/connector.ts';
import type { CallDeadline } from '../outbound/deadline.ts';
import { type OutboundResponse, splitUrl } from '../outbound/exchange.ts';
import { OutboundError } from '../outbound/outbound-error.ts';
import { inSpan, UpstreamSpan } from '../tracing/spans.ts';
import { decoded } from './answer-body.ts';
import {
  dialectHeaders,
  type HeaderPlan,
  planHeaders,
  upstreamRequestHeaders,
  withAccountsIdempotencyKey,
} from './headers.ts';
import { AwaitedResponses, Breaker, StreamUsage, UpstreamCalls } from './upstream-state.ts';

/** One provider, as the relay needs it. */
export interface Upstream {
  readonly name: string;
  /** Where its API starts, without a slash at the end: `https://api.example.com/v1`. */
  readonly baseUrl: string;
  /** The query of every request to it, with its `?`; empty where there is none. */
  readonly search: string;
  /** The APIs that it speaks. */
  readonly speaks: readonly Dialect[];
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
  /** Whether its `models` or `aliases` have this very name, and not just a pattern that it matches. */
  names(model: string): boolean;
  readonly http: HttpClient;
  /** Makes the connections of WebSockets to it, where they go through a proxy. */
  readonly tunnel: Connect | undefined;
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

/** The configured address without the slashes at the end of its path, and its query. */
function splitBaseUrl(baseUrl: string): { base: string; search: string } {
  const [address = '', ...query] = baseUrl.split('?');
  const { origin, path } = splitUrl(`${address.replace(/\/+$/, '')}/`);
  const search = query.join('?');
  return { base: (origin + path).slice(0, -1), search: search === '' ? '' : `?${search}` };
}

/** How its key is sent to an upstream: as Anthropic's own API takes it only where nothing else is spoken. */
function keyHeader(apiKey: string, speaks: readonly Dialect[]): Readonly<Record<string, string>> {
  return speaks.includes('openai') ? { authorization: `Bearer ${apiKey}` } : { 'x-api-key': apiKey };
}

export function createUpstream(options: UpstreamOptions): Upstream {
  const { models = ['*'], aliases = {}, apiKey, speaks = ['openai'] } = options;
  const timeouts = { ...defaultTimeouts, ...options.timeouts };
  const matches = servedModels(models);
  const named = new Set([...models.filter((model) => !model.includes('*')), ...Object.entries(aliases).flat()]);
  // each has its own connections and breaker: a slow upstream delays no other
  const proxy = options.proxy || undefined;
  const dispatcher = createDispatcher({ connectTimeout: timeouts.connect, proxy });
  const { base, search } = splitBaseUrl(options.baseUrl);
  const headers = Object.entries(options.headers ?? {}).map(([name, value]) => [name.toLowerCase(), value]);
  const configured = {
    ...(apiKey !== undefined && keyHeader(apiKey, speaks)),
    ...(Object.fromEntries(headers) as Record<string, string>),
  };
  const forwarded = (options.forwardHeaders ?? []).map((name) => name.toLowerCase());
  const ofDialects = speaks.flatMap((dialect) => dialectHeaders[dialect]);
  return {
    name: options.name,
    baseUrl: base,
    search,
    speaks,
    headers: planHeaders(configured, [...ofDialects, ...forwarded]),
    models,
    aliases,
    weight: options.weight ?? 1,
    priority: options.priority ?? 0,
    timeouts,
    streamUsage: new StreamUsage(options.includeUsage ?? true),
    maskErrors: options.maskErrors ?? false,
    serves: (model) => Object.hasOwn(aliases, model) || matches(model),
    names: (model) => named.has(model),
    http: createHttpClient(dispatcher),
    tunnel: proxy === undefined ? undefined : createTunnelConnect({ proxy, timeout: timeouts.connect }),
    breaker: new Breaker(),
    calls: new UpstreamCalls(options.maxConcurrency ?? defaultMaxConcurrency),
    awaited: new AwaitedResponses(timeouts.firstByte),
    close: () => dispatcher.destroy(),
  };
}

/** Whether a name begins as OpenAI's names of fine-tuned models do; for a provider that does not tell cases apart, in any case. */
export function isTunedName(model: string): boolean {
  return /^\s*ft:/i.test(model);
}

/**
 * Which models an upstream serves to everybody. A pattern such as `*` stands for no fine-tuned model: its provider lists those of all accounts. Others are
 * served where a name or a pattern says so that begins as theirs do.
 */
function servedModels(models: readonly string[]): MatchesModel {
  const matches = modelMatcher(models);
  const matchesTuned = modelMatcher(models.filter(isTunedName));
  return (model) => (isTunedName(model) ? matchesTuned : matches)(model);
}

/**
 * The address of a request to an upstream. The query of its base URL comes first, then the caller's unchanged, without
 * parameters that the base URL has too.
 * @param path below the base URL, with a slash
 * @param search the caller's query, with its `?`
 */
export function upstreamUrl(upstream: Pick<Upstream, 'baseUrl' | 'search'>, path: string, search = ''): string {
  const url = upstream.baseUrl + path;
  if (upstream.search === '') return url + search;
  const namesIn = (query: string) => [...new URLSearchParams(query).keys()].map((name) => name.toLowerCase());
  const configured = new Set(namesIn(upstream.search));
  const parameters = search.slice(1).split('&');
  const added = parameters.filter((parameter) => parameter !== '' && !configured.has(namesIn(parameter)[0] ?? ''));
  return [url + upstream.search, ...added].join('&');
}

/** The upstream's name for a model, by the name that callers use. */
export function upstreamModelName({ aliases }: Pick<Upstream, 'aliases'>, model: string): string {
  return Object.hasOwn(aliases, model) ? (aliases[model] as string) : model;
}

/** The longest that a call to any of these upstreams takes: what is answered over a WebSocket has no limit of its own. Milliseconds. */
export function longestCall(upstreams: readonly Pick<UpstreamOptions, 'timeouts'>[]): number {
  return Math.max(defaultTimeouts.total, ...upstreams.map(({ timeouts }) => timeouts?.total ?? 0));
}

/** Those of some upstreams that speak a dialect, and the others. */
export function speakersOf(upstreams: readonly Upstream[], dialect: Dialect) {
  const speakers = upstreams.filter(({ speaks }) => speaks.includes(dialect));
  return { speakers, others: upstreams.filter((upstream) => !speakers.includes(upstream)) };
}

/** The part of an upstream that its choice depends on. */
export type Candidate = Pick<Upstream, 'weight' | 'priority' | 'serves'>;

/** The same, where a model may belong to an account. */
export type NamedCandidate = Candidate & Pick<Upstream, 'name' | 'names'>;

/** A random order in which an upstream's chance to come first is its share of the weights. */
function shuffled<U extends Candidate>(upstreams: readonly U[], random: () => number): U[] {
  const rest = [...upstreams];
  const order: U[] = [];
  while (rest.length > 0) {
    let point = random() * rest.reduce((sum, { weight }) => sum + weight, 0);
    const at = rest.findIndex(({ weight }) => {
      point -= weight;
      return point < 0;
    });
    order.push(...rest.splice(Math.max(at, 0), 1));
  }
  return order;
}

/**
 * The upstreams that serve a model, in the order they are asked: by priority, then at random by weight.
 * @param model `undefined` when the call names none: then all upstreams qualify
 * @param random like `Math.random`
 */
export function orderUpstreams<U extends Candidate>(
  upstreams: readonly U[],
  model: string | undefined,
  random: () => number,
): U[] {
  const serving = model === undefined ? upstreams : upstreams.filter((upstream) => upstream.serves(model));
  if (serving.length < 2) return [...serving];
  const byPriority = new Map<number, U[]>();
  for (const upstream of serving) {
    byPriority.set(upstream.priority, [...(byPriority.get(upstream.priority) ?? []), upstream]);
  }
  return [...byPriority.keys()]
    .sort((a, b) => a - b)
    .flatMap((priority) => shuffled(byPriority.get(priority) ?? [], random));
}

/**
 * The upstreams that a call of a model goes to, in turn; at least one.
 * @param random like `Math.random`. @default that
 * @throws GatewayError `model_not_found`
 */
export function selectUpstreams<U extends Candidate>(
  upstreams: readonly U[],
  model: string | undefined,
  random = Math.random,
): readonly [U, ...U[]] {
  const [first, ...others] = orderUpstreams(upstreams, model, random);
  if (first) return [first, ...others];
  throw modelNotFound(model);
}

/** The error for a model that no upstream serves to its caller. Another account's is as one that does not exist. */
export function modelNotFound(model: string | undefined): GatewayError {
  let message = `The model '${model}' does not exist; GET /v1/models lists those that do`;
  if (model === undefined) message = 'No model provider is configured; tell the operator of this gateway';
  else if (isTunedName(model)) {
    message +=
      '. A fine-tuned model is there for the account that made it here; for all, where the models of an upstream name it, or a pattern that begins with ft:';
  }
  return new GatewayError('model_not_found', message, { param: 'model' });
}

/** Whose API each is. */
const vendors: Readonly<Record<Dialect, string>> = { openai: 'OpenAI', anthropic: 'Anthropic' };

/** The error for a model whose upstreams speak other APIs alone. */
export function notSpoken(model: string | undefined, dialect: Dialect): GatewayError {
  const served = model === undefined ? 'Models are' : `The model '${model}' is`;
  const message = `${served} not served by ${vendors[dialect]}'s API here: call another API, or have the operator of this gateway add '${dialect}' to speaks of an upstream that does`;
  return new GatewayError('model_not_found', message, { param: 'model' });
}

/** Which models upstreams have made for accounts. */
export interface ModelOwners {
  /** All that this process knows of: of most gateways none. */
  readonly known: { readonly size: number };
  /** Whether an account has one of this name, as far as this process knows. */
  has(model: string): boolean;
  /** @throws GatewayError `model_not_found` for another account's, `database_unavailable` */
  route<U extends NamedCandidate>(
    upstreams: readonly U[],
    model: string,
    userId: string,
  ): Promise<readonly [U, ...U[]]>;
  /** Requires of a model beside the one that a call goes by that none of its upstreams has it for others. @throws GatewayError `model_not_found` */
  requireOpen(model: string, userId: string, upstreams: readonly NamedCandidate[]): void;
}

/**
 * The upstreams that an account's call of a model goes to, in turn; at least one. Only for a name that an account has, or that no upstream serves, is it asked
 * whose it is.
 * @throws GatewayError `model_not_found`, `database_unavailable`
 */
export function routeModel<U extends NamedCandidate>(
  upstreams: readonly U[],
  model: string | undefined,
  userId: string,
  owners: ModelOwners,
): readonly [U, ...U[]] | Promise<readonly [U, ...U[]]> {
  if (model === undefined) return selectUpstreams(upstreams, model);
  if (owners.known.size === 0 || !owners.has(model)) {
    const [first, ...others] = orderUpstreams(upstreams, model, Math.random);
    if (first) return [first, ...others];
  }
  return owners.route(upstreams, model, userId);
}

/** Whether a model matches one of some ids and patterns. */
export type MatchesModel = (model: string) => boolean;

/**
 * Searches every piece between two `*` once, after the piece before: the first match leaves the most text to the pieces that
 * follow, so no other match has to be tried.
 */
function patternMatcher(pattern: string): MatchesModel {
  const [start = '', ...pieces] = pattern.split('*');
  const end = pieces.pop() ?? '';
  return (model) => {
    const limit = model.length - end.length;
    if (limit < start.length || !model.startsWith(start) || !model.endsWith(end)) return false;
    let at = start.length;
    for (const piece of pieces) {
      const index = model.indexOf(piece, at);
      if (index === -1 || index + piece.length > limit) return false;
      at = index + piece.length;
    }
    return true;
  };
}

/** Creates a matcher for ids, and for patterns where `*` matches any text. Its cost does not grow with the number of `*`, as a regular expression's would. */
export function modelMatcher(models: readonly string[]): MatchesModel {
  const ids = new Set(models.filter((model) => !model.includes('*')));
  const patterns = models.filter((model) => model.includes('*')).map(patternMatcher);
  return (model) => ids.has(model) || patterns.some((matches) => matches(model));
}

/** What the requests of every call share. */
export interface RequestOptions {
  /** Makes the idempotency keys of one account differ from those of another. */
  readonly idempotencySecret: Buffer;
  /** Whether upstreams get the trace context of their requests. */
  readonly propagateTrace: boolean;
}

/** One request to an upstream. */
export interface UpstreamRequest extends Pick<RequestConfig, 'method' | 'data' | 'onLost'> {
  /** The length of a body that is a stream, if it is known. Bytes. */
  readonly length?: number | undefined;
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Below the upstream's base URL. */
  readonly path: string;
  /** The same as a template, without ids. */
  readonly template: string;
  /** The model, by the upstream's name. */
  readonly model?: string | undefined;
  /** The query, with its `?`. @default the caller's */
  readonly search?: string | undefined;
  /** Further headers of the client's that go up, lower-case names. @default none */
  readonly passed?: readonly string[];
  /** Whether it may be sent again once the upstream may have got it. @default true */
  readonly resends?: boolean;
  /** Called right before the request is written, each time that it is. */
  readonly onSend?: () => void;
}

/** The requests of one call to upstreams, one after the other, each in a span of its own. */
export class UpstreamRequests {
  readonly #apiRequest: ApiRequest;
  readonly #deadline: CallDeadline;
  readonly #headers: IncomingHttpHeaders;
  readonly #propagateTrace: boolean;
  /** The span of the last request; `undefined` where there is no SDK. Whoever makes the call ends it with the call; a next request does so too. */
  span: UpstreamSpan | undefined;

  constructor(apiRequest: ApiRequest, deadline: CallDeadline, { idempotencySecret, propagateTrace }: RequestOptions) {
    this.#apiRequest = apiRequest;
    this.#deadline = deadline;
    this.#headers = withAccountsIdempotencyKey(apiRequest.headers, apiRequest.principal.userId, idempotencySecret);
    this.#propagateTrace = propagateTrace;
  }

  /** Sends a request; resolves when the head of the answer is there. Rejects with an OutboundError. */
  async send(
    upstream: Upstream,
    {
      method,
      path,
      template,
      model,
      search,
      passed = [],
      data,
      length,
      resends = true,
      onSend,
      onLost,
    }: UpstreamRequest,
  ): Promise<OutboundResponse> {
    const apiRequest = this.#apiRequest;
    const deadline = this.#deadline;
    apiRequest.relayed.upstream = upstream.name;
    this.span?.end();
    const span = UpstreamSpan.start({ upstream, method, path: template, model, apiRequest });
    this.span = span;
    const headers = upstreamRequestHeaders(this.#headers, upstream.headers, apiRequest.requestId);
    if (length !== undefined) headers['content-length'] = String(length);
    for (const name of passed) {
      const value = this.#headers[name];
      if (value !== undefined) headers[name] = String(value);
    }
    const request: RequestConfig = {
      method,
      url: upstreamUrl(upstream, path, search ?? apiRequest.search),
      headers: this.#propagateTrace && span ? span.addTo(headers) : headers,
      data: data ?? null,
      signal: deadline,
      resends,
      onSend: whenConnected(deadline, upstream, onSend),
      onLost,
    };
    try {
      const response = await inSpan(span?.span, () => upstream.http.relay(request));
      span?.answered(response.status);
      return decoded(response);
    } catch (error) {
      span?.failed(error instanceof OutboundError ? error.code : '_OTHER');
      throw error;
    } finally {
      deadline.disarm();
    }
  }
}

/** A function of its own, because the request keeps it to its end: it must not keep the request's bytes. */
function whenConnected(deadline: CallDeadline, upstream: Upstream, onSend: UpstreamRequest['onSend']): () => void {
  return () => {
    // before that, connecting has its own time limit
    deadline.arm(upstream.timeouts.firstByte);
    onSend?.();
  };
}
