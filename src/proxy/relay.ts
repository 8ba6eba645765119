import type { ServerResponse } from 'node:http';
import { refuse } from '../errors.ts';
import { mayName } from '../http/json/search.ts';
import type { ApiRequest, RelayOperation } from '../http/operation.ts';
import type { CallEnding, Logger, OpenUsage, UsageRecord } from '../options/options.ts';
import { CallDeadline } from '../outbound/deadline.ts';
import type { OutboundResponse } from '../outbound/exchange.ts';
import { OutboundError } from '../outbound/outbound-error.ts';
import {
  type Admission,
  type AdmissionCheck,
  type OpenedCall,
  type RequestedCall,
  type RunningResponses,
  requestAdmission,
  requireAllowedModel,
  settle,
} from './admission.ts';
import type { CallStorage, RequestedStorage } from './call-storage.ts';
import { type Endpoint, spokenBy } from './endpoint.ts';
import { failureFrom, isMasked, requireRelayable, sendMasked, type UpstreamReports } from './failure.ts';
import type { RelayHooks } from './hooks.ts';
import { type HostedTools, readHostedTools, toolEdits } from './hosted-tools.ts';
import {
  type ErrorInside,
  type InspectedResponse,
  inspectResponse,
  isSuccess,
  usageRefusal,
} from './inspect-answer.ts';
import { bodyFor, checkModelName, estimateInput, type ModelBody } from './model-body.ts';
import { type RetryPolicy, tryUpstreams } from './retry.ts';
import { sendResponse } from './send-answer.ts';
import {
  notSpoken,
  type RequestOptions,
  routeModel,
  type Upstream,
  UpstreamRequests,
  upstreamModelName,
} from './upstream.ts';
import { CallPlace } from './upstream-state.ts';
import { closedRecord, finalUsage, openRecord, tokensSeen, UsageMeter, type UsageRecorder } from './usage-meter.ts';

/** What calls of upstreams are made with. */
export interface CallDependencies extends RequestOptions {
  readonly upstreams: readonly Upstream[];
  /** Which checks may refuse a call, in this order. */
  readonly admissionChecks: readonly AdmissionCheck[];
  readonly retry: RetryPolicy;
  readonly usageRecorder: UsageRecorder;
  /** Whether answers name their upstream in `x-gateway-upstream`. */
  readonly exposeUpstream: boolean;
  /** After how long without anything to send a stream gets a comment; `undefined` where it gets none. Milliseconds. */
  readonly streamHeartbeat: number | undefined;
  readonly logger: Logger;
}

/** What calls of models are relayed with. */
export interface RelayDependencies extends CallDependencies {
  readonly hooks: RelayHooks | undefined;
  readonly storage: CallStorage;
  readonly backgroundResponses: RunningResponses;
  /** Whether the upstream's call is aborted when the client leaves. */
  readonly abortOnDisconnect: boolean;
  readonly reports: UpstreamReports;
  /** Upstreams that none of these calls goes to, because they do not speak its API. @default none */
  readonly others?: readonly Upstream[];
}

/** Makes the function that relays the calls of an endpoint. It throws a GatewayError as long as it has sent nothing. */
export function createRelay(deps: RelayDependencies, endpoint: Endpoint): RelayOperation['relay'] {
  return async function relay(apiRequest, res) {
    const request = await readModelRequest(endpoint, apiRequest, deps.storage);
    // no account would own what the upstream keeps
    if (request.storing) deps.storage.require();
    if (request.inBackground) deps.backgroundResponses.requireRoom(apiRequest.principal.userId);
    const admissions = await requestAdmission(deps.admissionChecks, request, res);
    let route: CallRoute;
    try {
      route = await chooseRoute(deps, request);
    } catch (error) {
      settle(deps, { admissions }, undefined);
      throw error;
    }
    deps.retry.budget.earn();
    await new RelayedCall(deps, request, route, admissions).run(res);
  };
}

/** One request of a client, read and checked. */
interface ModelRequest extends RequestedCall {
  readonly endpoint: Endpoint;
  readonly apiRequest: ApiRequest;
  readonly body: ModelBody;
  readonly tools: HostedTools | undefined;
  /** What its upstream is to keep of it. */
  readonly storing: RequestedStorage | undefined;
  /** Whether its upstream is to work on it after the call has been answered. */
  readonly inBackground: boolean;
}

/** @throws GatewayError `invalid_value`, `model_not_allowed` */
async function readModelRequest(
  endpoint: Endpoint,
  apiRequest: ApiRequest,
  storage: CallStorage,
): Promise<ModelRequest> {
  const { requestId, principal } = apiRequest;
  const body = endpoint.readBody(apiRequest, endpoint.path);
  checkModelName(body.model);
  if (body.model !== undefined) apiRequest.relayed.model = body.model;
  requireAllowedModel(principal, body.model);
  // most calls bring none
  const brings = endpoint.answersResponse || apiRequest.fields.has('tools');
  const tools = brings ? await readHostedTools(apiRequest, principal) : undefined;
  const output = tools?.requested ? { ...body.output, tools: tools.requested } : body.output;
  const info = { requestId, principal, endpoint: endpoint.path, model: body.model, stream: body.stream };
  const storing = asksToStore(endpoint, apiRequest) ? storage.requested(endpoint.stores.kind, apiRequest) : undefined;
  const inBackground = asksForBackground(endpoint, apiRequest, storing);
  const estimatedTokens = endpoint.isFree ? 0 : estimateInput(apiRequest.rawBody, body);
  return { endpoint, apiRequest, body, tools, info, storing, inBackground, estimatedTokens, output };
}

/** Whether an upstream is to keep something of a call. */
function asksToStore(
  endpoint: Endpoint,
  { body }: ApiRequest,
): endpoint is Endpoint & Required<Pick<Endpoint, 'stores'>> {
  if (!endpoint.stores) return false;
  const { store } = body as { store?: unknown };
  return endpoint.stores.byDefault ? store !== false : store === true;
}

/**
 * Whether a response is to be made after the call has been answered.
 * @throws GatewayError `invalid_value` where the upstream would keep nothing that can be asked for afterwards
 */
function asksForBackground(
  { answersResponse }: Endpoint,
  { body }: ApiRequest,
  storing: ModelRequest['storing'],
): boolean {
  if (!answersResponse || (body as { background?: unknown }).background !== true) return false;
  return storing ? true : refuse('invalid_value', 'store', 'must not be false with background: true');
}

/** Where an admitted call goes. */
interface CallRoute {
  /** The model that the upstreams are asked for; `undefined` where the client names none. */
  readonly model: string | undefined;
  /** The upstreams, in the order in which they are tried. */
  readonly order: readonly [Upstream, ...Upstream[]];
}

/** @throws GatewayError `model_not_found`, that something it continues is not found, `database_unavailable`, what the host throws */
async function chooseRoute(
  deps: RelayDependencies,
  { endpoint, apiRequest, tools, info }: ModelRequest,
): Promise<CallRoute> {
  let { upstreams } = deps;
  const { continues = false, names = continues } = endpoint;
  // most calls refer to nothing
  const refers = names || apiRequest.form !== undefined || mayName(apiRequest.rawBody);
  if (typeof refers === 'boolean' ? refers : await refers) {
    upstreams = await deps.storage.keepers(apiRequest, names, upstreams);
  }
  const change = deps.hooks && (await deps.hooks.onRequest(info));
  const model = change?.model ?? info.model;
  requireSpeaker(deps, endpoint, model);
  const { userId } = apiRequest.principal;
  const { models } = deps.storage;
  const routed = routeModel(upstreams, model, userId, models);
  const order = 'then' in routed ? await routed : routed;
  for (const { name } of tools?.models ?? []) models.requireOpen(name, userId, order);
  return { model, order };
}

/** Requires that not only upstreams serve a model which do not speak the API of its call. @throws GatewayError `model_not_found` */
function requireSpeaker(
  { upstreams, others = [] }: RelayDependencies,
  endpoint: Endpoint,
  model: string | undefined,
): void {
  const serves = (upstream: Upstream): boolean => model === undefined || upstream.serves(model);
  if (others.some(serves) && !upstreams.some(serves)) throw notSpoken(model, spokenBy(endpoint));
}

/** An upstream's answer that has begun, and what its request was. */
interface Answer extends InspectedResponse {
  /** When its head was there, by `performance.now()`. */
  readonly headAt: number;
  /** Whether the request asked for the usage of its stream, which the client did not. */
  readonly asksForUsage: boolean;
}

/** The reason of a failure that an answer of 2xx says, in the log and the metrics. */
export const errorInAnswer = 'error_in_answer';

/** How long the gateway waits for the usage of an answer that was complete without it when the client disconnected. Milliseconds. */
const usageGrace = 1_000;

/** One admitted call, on its way from the client to an upstream and back. */
class RelayedCall implements OpenedCall {
  readonly admissions: readonly Admission[];
  readonly usage: OpenUsage;
  readonly meter: UsageMeter;
  running: OpenedCall['running'];
  readonly #deps: RelayDependencies;
  readonly #request: ModelRequest;
  readonly #route: CallRoute;
  readonly #userId: string;
  readonly #started = performance.now();
  readonly #place: CallPlace;
  readonly #deadline: CallDeadline;
  readonly #requests: UpstreamRequests;
  #firstByteMs = 0;
  /** The upstream that works on the call: the request was sent there and has not failed. */
  #working: Upstream | undefined;

  constructor(deps: RelayDependencies, request: ModelRequest, route: CallRoute, admissions: readonly Admission[]) {
    const { apiRequest, endpoint, body } = request;
    const [first] = route.order;
    this.#deps = deps;
    this.#request = request;
    this.#route = route;
    this.#userId = apiRequest.principal.userId;
    this.admissions = admissions;
    this.usage = openRecord(request, first.name, Date.now());
    this.meter = new UsageMeter(endpoint, body.stream, { ...request.output, choices: body.choices });
    this.#place = new CallPlace(this.#userId);
    this.#deadline = new CallDeadline(apiRequest.client, first.timeouts.total, () => this.#graceOnDisconnect());
    this.#requests = new UpstreamRequests(apiRequest, this.#deadline, deps);
  }

  async run(res: ServerResponse): Promise<void> {
    const { usageRecorder, hooks, retry } = this.#deps;
    const { apiRequest, info } = this.#request;
    const call = {
      userId: this.#userId,
      order: this.#route.order,
      deadline: this.#deadline,
      place: this.#place,
      isModelCall: true,
    };
    let record: UsageRecord | undefined;
    let answered: { readonly upstream: Upstream; readonly response: Answer } | undefined;
    usageRecorder.opened(this.usage);
    try {
      answered = await tryUpstreams(call, (next, onConnected) => this.#send(next, onConnected), retry);
      const { upstream, response } = answered;
      this.#firstByteMs = response.headAt - this.#started;
      // there is no further attempt: free the request's bytes now, for the answer may take minutes
      apiRequest.releaseBody();
      hooks?.onResponse(info, upstream.name, response.status, this.#firstByteMs);
      requireRelayable(response, apiRequest);
      this.meter.failure = response.errorInside;
      const sent = this.#sendDown(upstream, response, res);
      const ending = typeof sent === 'string' ? sent : await sent;
      if (response.status < 300) record = this.#record(upstream, ending);
      if (isSuccess(response)) this.#reportEnd(upstream, response.status, ending);
    } catch (error) {
      // whatever it has failed at, nobody reads the rest
      answered?.response.data.destroy();
      // it has said nothing, later than it was waited for
      if (answered && isSuccess(answered.response)) this.#reportFailure(answered.upstream);
      if (!this.#deadline.client.disconnected) throw error instanceof OutboundError ? failureFrom(error) : error;
      // the upstream has worked for a client that did not wait for the answer, and reads no error
      if (this.#working) record = this.#record(this.#working, 'client_left');
    } finally {
      try {
        settle(this.#deps, this, record);
      } finally {
        this.#place.release();
        this.#requests.span?.end();
        this.#deadline.release();
      }
    }
  }

  /**
   * Sends the request to one upstream; resolves when the answer has begun. Sends it again as the client wrote it where the upstream refuses what the
   * gateway added.
   */
  async #send(upstream: Upstream, onConnected: () => void): Promise<Answer> {
    const { body, endpoint } = this.#request;
    const { streamUsage } = upstream;
    const model = this.#route.model === undefined ? undefined : upstreamModelName(upstream, this.#route.model);
    const asksForUsage = endpoint.streamsUsage && body.usageEdits.length > 0 && streamUsage.isAskedFor(model);
    const answer = await this.#sendOnce(upstream, onConnected, model, asksForUsage);
    if (!asksForUsage) return answer;
    const { betweenChunks } = upstream.timeouts;
    const refusal = await usageRefusal(answer, { deadline: this.#deadline, betweenChunks });
    if (refusal === undefined) {
      if (isSuccess(answer)) streamUsage.accepted(model);
      return answer;
    }
    if (this.#deadline.isOver || (refusal === 'unnamed' && streamUsage.hasAccepted(model))) return answer;
    answer.data.destroy();
    const plain = await this.#sendOnce(upstream, onConnected, model, false);
    if (isSuccess(plain) && streamUsage.refused(model)) {
      const hint = 'its usage is estimated; set includeUsage: false for it';
      this.#deps.logger.warn(`an upstream refuses stream_options, so ${hint}`, { upstream: upstream.name });
    }
    return plain;
  }

  async #sendOnce(
    upstream: Upstream,
    onConnected: () => void,
    model: string | undefined,
    asksForUsage: boolean,
  ): Promise<Answer> {
    const { apiRequest, endpoint, body, tools } = this.#request;
    const { path } = endpoint;
    const { reports } = this.#deps;
    const deadline = this.#deadline;
    const startedAt = performance.now();
    try {
      const response = await this.#requests.send(upstream, {
        method: 'POST',
        path,
        template: path,
        model,
        data: bodyFor(apiRequest.rawBody, body, model, asksForUsage, tools && toolEdits(tools, upstream)),
        onSend: () => {
          onConnected();
          this.#working = upstream;
          this.meter.sent();
        },
        onLost: () => {
          this.#working = undefined;
        },
      });
      const headAt = performance.now();
      reports.responded(upstream, response.status, headAt - startedAt);
      const { betweenChunks } = upstream.timeouts;
      const { answers, result } = endpoint;
      const answer = await inspectResponse(response, { deadline, betweenChunks, answers, result, stream: body.stream });
      this.#reportBeginning(upstream, answer);
      const { status, statusText, headers, data, errorInside, isUndecided } = answer;
      return { headAt, asksForUsage, status, statusText, headers, data, errorInside, isUndecided };
    } catch (error) {
      if (!deadline.aborted) this.#working = undefined;
      if (error instanceof OutboundError && !deadline.client.disconnected) reports.failed(upstream, path, error.code);
      throw error;
    }
  }

  #sendDown(upstream: Upstream, answer: Answer, res: ServerResponse): CallEnding | Promise<CallEnding> {
    const { apiRequest, endpoint, body, inBackground } = this.#request;
    const { exposeUpstream, logger } = this.#deps;
    const deadline = this.#deadline;
    const shownUpstream = exposeUpstream ? upstream.name : undefined;
    const response = answer.status < 300 ? this.#owned(upstream, answer) : answer;
    const status = answer.errorInside?.status ?? answer.status;
    if (isMasked(upstream, status)) {
      const masked = { ...response, status };
      return sendMasked({ upstream, response: masked, shownUpstream, res, apiRequest, deadline }, logger);
    }
    return sendResponse({
      shownUpstream,
      response,
      res,
      deadline,
      betweenChunks: upstream.timeouts.betweenChunks,
      heartbeat: this.#deps.streamHeartbeat,
      meter: this.meter,
      asksForStream: body.stream,
      answers: endpoint.answers,
      result: endpoint.result,
      endsInDone: endpoint.streamsUsage,
      responseStream: endpoint.answersResponse ? (inBackground ? 'background' : 'whole') : undefined,
      streamEnd: endpoint.createStreamEnd?.(apiRequest.requestId),
      isUndecided: answer.isUndecided,
      dropsUsageChunk: answer.asksForUsage,
      repairsVectors: endpoint.answersVectors && body.wantsBase64 && response.status < 300,
    });
  }

  /** The answer; if the upstream keeps it, its bytes come when it is stored whose it is. */
  #owned(upstream: Upstream, answer: Answer): OutboundResponse {
    const { storing, info, inBackground, body, output } = this.#request;
    if (!storing && !body.mayUseContainer) return answer;
    const { storage } = this.#deps;
    const { endpoint, principal } = info;
    const model = info.model ?? null;
    const whose = { userId: this.#userId, upstream: upstream.name, model, keyId: principal.keyId, endpoint };
    if (!storing) return storage.inContainer<OutboundResponse>(answer, whose);
    const background = {
      usage: {
        ...this.usage,
        upstream: upstream.name,
        firstByteMs: this.#firstByteMs,
        streams: body.stream,
        ...(output.maxTokens !== undefined && { maxOutputTokens: output.maxTokens }),
      },
      onRunning: (id: string) => this.#follow(id),
    };
    return storage.owned<OutboundResponse>(answer, { ...storing, ...whose }, inBackground ? background : undefined);
  }

  /** What runs on is counted when it has ended, by whichever process finds that out. */
  #follow(id: string): void {
    const { usageRecorder, backgroundResponses } = this.#deps;
    this.running = { id, userId: this.#userId };
    usageRecorder.dropped(this.usage.id);
    const { meter } = this;
    const tokensStreamed = this.#request.body.stream ? () => tokensSeen(meter) : undefined;
    const { admissions, usage } = this;
    backgroundResponses.started(this.running, { admissions, usageId: usage.id }, tokensStreamed);
  }

  /** How long an upstream may still work on the call after the client has disconnected. Milliseconds. */
  #graceOnDisconnect(): number {
    // the end of its stream says what a response that runs on has used, and perhaps nothing else does
    if (this.running) return Number.POSITIVE_INFINITY;
    if (!this.#working) return 0;
    // what a response continues is input too, and only its end says how much that was
    const { continues, answersUnits } = this.#request.endpoint;
    if (!this.#deps.abortOnDisconnect || continues) return Number.POSITIVE_INFINITY;
    // a client that has most of an answer would otherwise leave before its price has come
    if (answersUnits && this.meter.bytes > 0 && !this.meter.isEnded) return Number.POSITIVE_INFINITY;
    return this.meter.isEnded && !this.meter.reported ? usageGrace : 0;
  }

  /** The record of a call that was answered, or worked on. */
  #record({ name: upstream }: Upstream, sent: CallEnding): UsageRecord {
    const { endpoint, output } = this.#request;
    const hasFailed = this.meter.failure !== undefined;
    const ending = hasFailed ? 'upstream_failed' : sent;
    const { inputTokens: estimatedInput, imageModels } = this.usage;
    const call = { estimatedInput, imageModels, output, ending, hasFailed, endpoint } as const;
    const used = finalUsage(this.meter, call);
    const durationMs = performance.now() - this.#started;
    const record = closedRecord(this.usage, used, { upstream, ending, durationMs, firstByteMs: this.#firstByteMs });
    this.#requests.span?.used(record);
    return record;
  }

  /** Tells the log and the metrics what the beginning of an answer says. */
  #reportBeginning(upstream: Upstream, { status, errorInside }: InspectedResponse): void {
    if (status >= 300 || errorInside) this.#working = undefined;
    if (errorInside) this.#reportError(upstream, errorInside);
    // an error that clients do not see is logged each time; whether a success is one, its end says
    else if (status >= 300 && !isMasked(upstream, status))
      this.#deps.reports.logAnswer(upstream, this.#request.endpoint.path, status);
  }

  /** Tells them how an answer has ended that began well. */
  #reportEnd(upstream: Upstream, status: number, ending: CallEnding): void {
    if (this.meter.failure) this.#reportFailure(upstream);
    else if (ending === 'complete') {
      this.#deps.reports.logAnswer(upstream, this.#request.endpoint.path, status);
      upstream.breaker.countEnd(this.#userId, false);
    }
  }

  /** Tells them that it has failed later, if it has. */
  #reportFailure(upstream: Upstream): void {
    const { failure } = this.meter;
    if (!failure) return;
    this.#reportError(upstream, failure);
    upstream.breaker.countEnd(this.#userId, failure.blamesRequest === false);
  }

  #reportError(upstream: Upstream, { blamesRequest }: Pick<ErrorInside, 'blamesRequest'>): void {
    if (blamesRequest) return;
    this.#deps.reports.failed(upstream, this.#request.endpoint.path, errorInAnswer);
    this.#requests.span?.failed(errorInAnswer);
  }
}
