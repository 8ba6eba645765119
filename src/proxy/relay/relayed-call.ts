import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import type { CallEnding, Logger, OpenUsage } from '../../options/options.ts';
import { OutboundError } from '../../outbound/outbound-error.ts';
import type { BackgroundResponses } from '../../stored/background.ts';
import type { StoredObject } from '../../stored/kinds.ts';
import { ownedResponse } from '../../stored/recorded-answer.ts';
import type { StoredObjects } from '../../stored/service.ts';
import { UpstreamSpan } from '../../tracing/spans.ts';
import { type CallDeadline, disconnectGrace } from '../call-deadline.ts';
import { upstreamRequestHeaders, withAccountsIdempotencyKey } from '../headers.ts';
import type { RelayHooks } from '../hooks.ts';
import { finalUsage, tokensSeen } from '../metering/final-usage.ts';
import { createUsageMeter, type UsageMeter } from '../metering/usage-meter.ts';
import { closedRecord, openRecord, type UsageRecorder } from '../metering/usage-record.ts';
import type { ModelObserver } from '../observer.ts';
import { bodyFor } from '../request/model-body.ts';
import type { FailureLog } from '../routing/failure-log.ts';
import { type RoutedCall, tryUpstreams } from '../routing/retry.ts';
import type { ErrorInside, RetryPolicy } from '../routing/retry-policy.ts';
import { type Upstream, upstreamModelName, upstreamUrl } from '../routing/upstream.ts';
import { CallPlace } from '../routing/upstream-calls.ts';
import { type DecodedResponse, decoded } from './decoded-body.ts';
import {
  type InspectedResponse,
  type InspectionLimits,
  inspectResponse,
  isSuccess,
  usageRefusal,
} from './inspected-response.ts';
import { isMasked, sendMasked } from './masked-error.ts';
import type { CallRoute, ModelRequest } from './model-request.ts';
import { requireRelayable } from './require-relayable.ts';
import { sendResponse } from './response/send-response.ts';
import { sendTraced } from './traced-request.ts';

export interface RelayedCallDependencies {
  readonly retry: RetryPolicy;
  readonly usageRecorder: UsageRecorder;
  readonly hooks: RelayHooks | undefined;
  readonly storedObjects: StoredObjects;
  readonly backgroundResponses: BackgroundResponses;
  /** Makes the idempotency keys of one account differ from those of another. */
  readonly idempotencySecret: Buffer;
  /** Whether answers name their upstream in `x-gateway-upstream`. */
  readonly exposeUpstream: boolean;
  readonly failureLog: FailureLog;
  readonly observer?: ModelObserver;
  /** Whether upstreams get the trace context of their requests. */
  readonly propagateTrace: boolean;
  readonly logger: Logger;
  /** Whether the upstream's call is aborted when the client leaves. */
  readonly abortOnDisconnect: boolean;
}

/** The reason of a failure that an answer of 2xx says, in the log and the metrics. */
const errorInAnswer = 'error_in_answer';

/** One admitted call, on its way from the client to an upstream and back. */
export class RelayedCall implements RoutedCall<InspectedResponse> {
  readonly userId: string;
  readonly order: readonly Upstream[];
  readonly deadline: CallDeadline;
  readonly place: CallPlace;
  readonly #deps: RelayedCallDependencies;
  readonly #request: ModelRequest;
  readonly #route: CallRoute;
  readonly #startedAt = Date.now();
  readonly #started = performance.now();
  /** When the head of the last response was there. */
  #headAt = 0;
  #firstByteMs = 0;
  /** Whether the last request to an upstream asked for the usage of its stream, which the client did not. */
  #asksForUsage = false;
  /** The upstream that works on the call: the request was sent there and has not failed. */
  #working: Upstream | undefined;
  /** The response that runs on after the call. */
  #running: Pick<StoredObject, 'id' | 'userId'> | undefined;
  readonly #headers: IncomingHttpHeaders;
  /** The last request to an upstream. */
  #span: UpstreamSpan | undefined;
  readonly #meter: UsageMeter;

  constructor(deps: RelayedCallDependencies, request: ModelRequest, route: CallRoute) {
    const { headers, principal } = request.apiRequest;
    this.userId = principal.userId;
    this.order = route.order;
    this.deadline = route.deadline;
    this.place = new CallPlace(principal.userId);
    this.#deps = deps;
    this.#request = request;
    this.#route = route;
    this.#headers = withAccountsIdempotencyKey(headers, principal.userId, deps.idempotencySecret);
    this.#meter = createUsageMeter(request.endpoint, request.body);
    // what a response continues is input too, and only its end says how much that was
    const aborts = deps.abortOnDisconnect && !request.endpoint.continues;
    route.deadline.graceOnDisconnect = () => {
      // the end of its stream says what a response that runs on has used, and perhaps nothing else does
      if (this.#running) return Number.POSITIVE_INFINITY;
      return this.#working ? disconnectGrace(aborts, this.#meter) : 0;
    };
  }

  async run(res: ServerResponse): Promise<void> {
    const { apiRequest, body, info } = this.#request;
    const answering = tryUpstreams(this, this.#deps.retry);
    const usage = this.#openUsage();
    this.#deps.usageRecorder.opened(usage);
    try {
      const { upstream, response } = await answering;
      this.#firstByteMs = this.#headAt - this.#started;
      // there is no further attempt: free the request's bytes now, for the answer may take minutes
      apiRequest.releaseBody();
      body.bytes = apiRequest.rawBody;
      this.#deps.hooks?.onResponse(info, upstream.name, response.status, this.#firstByteMs);
      requireRelayable(response, apiRequest);
      const answered = response.status < 300;
      this.#meter.failure = response.errorInside;
      const owned = answered ? this.#owned(usage, upstream, response) : response;
      const ending = await this.#sendDown(upstream, owned, res);
      if (answered) this.#closeUsage(usage, upstream, ending);
      else this.#dropUsage(usage);
      if (answered && !response.errorInside) this.#reportEnd(upstream, response.status, ending);
    } catch (error) {
      // the upstream has worked for a client that did not wait for the answer
      if (this.deadline.clientDisconnected && this.#working) this.#closeUsage(usage, this.#working, 'client_left');
      else this.#dropUsage(usage);
      throw error;
    } finally {
      this.place.release();
      this.#span?.end();
    }
  }

  /**
   * Sends the request to one upstream; resolves when the answer has begun. Sends it again as the client wrote it where the upstream refuses
   * what the gateway added.
   */
  async send(upstream: Upstream): Promise<InspectedResponse> {
    const { body, endpoint } = this.#request;
    const { streamUsage } = upstream;
    const model = this.#upstreamModel(upstream);
    const asksForUsage = endpoint.streamsUsage && body.usageEdits.length > 0 && streamUsage.isAskedFor(model);
    const answer = await this.#sendOnce(upstream, asksForUsage);
    if (!asksForUsage) return answer;
    const refusal = await usageRefusal(answer, this.#peekLimits(upstream));
    if (refusal === undefined) {
      if (isSuccess(answer)) streamUsage.accepted(model);
      return answer;
    }
    if (this.deadline.isOver || (!refusal.isNamed && streamUsage.hasAccepted(model))) return refusal.response;
    refusal.response.data.destroy();
    const plain = await this.#sendOnce(upstream, false);
    if (isSuccess(plain) && streamUsage.refused(model)) {
      const hint = 'its usage is estimated; set includeUsage: false for it';
      this.#deps.logger.warn(`an upstream refuses stream_options, so ${hint}`, { upstream: upstream.name });
    }
    return plain;
  }

  async #sendOnce(upstream: Upstream, asksForUsage: boolean): Promise<InspectedResponse> {
    const { apiRequest, endpoint, body } = this.#request;
    const { deadline } = this.#route;
    const upstreamModel = this.#upstreamModel(upstream);
    const url = upstreamUrl(upstream, endpoint.path, apiRequest.search);
    const startedAt = performance.now();
    apiRequest.relayed.upstream = upstream.name;
    this.#asksForUsage = asksForUsage;
    this.#span?.end();
    const span = UpstreamSpan.start({
      upstream,
      method: 'POST',
      path: endpoint.path,
      model: upstreamModel,
      apiRequest,
    });
    this.#span = span;
    try {
      const headers = upstreamRequestHeaders(this.#headers, upstream.headers, apiRequest.requestId);
      const response = await sendTraced(
        { upstream, deadline, span },
        {
          method: 'POST',
          url,
          headers: this.#deps.propagateTrace && span ? span.addTo(headers) : headers,
          data: bodyFor(body, upstreamModel, asksForUsage),
          signal: deadline,
          // before that, connecting has its own time limit
          onSend: () => {
            deadline.arm(upstream.timeouts.firstByte);
            this.#working = upstream;
            this.#meter.sent();
          },
        },
      );
      this.#headAt = performance.now();
      this.#deps.observer?.upstreamAnswered(upstream.name, response.status, this.#headAt - startedAt);
      return await this.#inspect(upstream, url, decoded(response));
    } catch (error) {
      if (!deadline.aborted) this.#working = undefined;
      if (error instanceof OutboundError && !deadline.clientDisconnected) {
        this.#deps.failureLog.failed(upstream, url, error.code);
        this.#deps.observer?.upstreamFailed(upstream.name, error.code);
      }
      throw error;
    }
  }

  #upstreamModel(upstream: Upstream): string | undefined {
    const { model } = this.#route;
    return model === undefined ? undefined : upstreamModelName(upstream, model);
  }

  #peekLimits(upstream: Upstream): InspectionLimits {
    return { deadline: this.#route.deadline, betweenChunks: upstream.timeouts.betweenChunks };
  }

  /** The response with what its beginning says, which the log and the metrics get. */
  async #inspect(upstream: Upstream, url: string, response: DecodedResponse): Promise<InspectedResponse> {
    const { body, endpoint } = this.#request;
    const answer = await inspectResponse(response, {
      ...this.#peekLimits(upstream),
      answers: endpoint.answers,
      stream: body.stream,
    });
    if (answer.status >= 300 || answer.errorInside) this.#working = undefined;
    if (answer.errorInside) this.#reportError(upstream, url, answer.errorInside);
    // an error that clients do not see is logged each time; whether a success is one, its end says
    else if (answer.status >= 300 && !isMasked(upstream, answer))
      this.#deps.failureLog.answered(upstream, url, answer.status);
    return answer;
  }

  #reportError(upstream: Upstream, url: string, { blamesRequest }: Pick<ErrorInside, 'blamesRequest'>): void {
    if (blamesRequest) return;
    this.#deps.failureLog.failed(upstream, url, errorInAnswer);
    this.#deps.observer?.upstreamFailed(upstream.name, errorInAnswer);
    this.#span?.failed(errorInAnswer);
  }

  /** Reports how an answer has ended that began well. */
  #reportEnd(upstream: Upstream, status: number, ending: CallEnding): void {
    const { failure } = this.#meter;
    if (!failure && ending !== 'complete') return;
    const { endpoint, apiRequest } = this.#request;
    const url = upstreamUrl(upstream, endpoint.path, apiRequest.search);
    if (failure) this.#reportError(upstream, url, failure);
    else this.#deps.failureLog.answered(upstream, url, status);
    upstream.breaker.recordEnd(this.userId, failure?.blamesRequest === false);
  }

  /** The answer; if the upstream keeps it, its bytes come when it is stored whose it is. */
  #owned(open: OpenUsage, { name: upstream }: Upstream, response: InspectedResponse): InspectedResponse {
    const { storing, info, inBackground, body, output } = this.#request;
    const { userId } = this;
    if (!storing) return response;
    const object = { ...storing, userId, upstream, model: info.model ?? null };
    const background = inBackground && {
      usage: {
        ...open,
        upstream,
        firstByteMs: this.#firstByteMs,
        streams: body.stream,
        ...(output.maxTokens !== undefined && { maxOutputTokens: output.maxTokens }),
      },
      onRunning: (id: string) => this.#follow({ id, userId }, open),
    };
    return ownedResponse(response, object, this.#deps.storedObjects, background || undefined);
  }

  #sendDown(upstream: Upstream, response: InspectedResponse, res: ServerResponse): Promise<CallEnding> {
    const { apiRequest, endpoint, body, inBackground } = this.#request;
    const { deadline } = this;
    const shownUpstream = this.#deps.exposeUpstream ? upstream.name : undefined;
    const { errorInside, isUndecided } = response;
    const masked = errorInside ? { ...response, status: errorInside.status } : response;
    if (isMasked(upstream, masked))
      return sendMasked({ upstream, response: masked, shownUpstream, res, apiRequest, deadline }, this.#deps.logger);
    return sendResponse({
      shownUpstream,
      response,
      res,
      deadline,
      betweenChunks: upstream.timeouts.betweenChunks,
      meter: this.#meter,
      asksForStream: body.stream,
      answers: endpoint.answers,
      endsInDone: endpoint.streamsUsage,
      responseStream: endpoint.answersResponse ? (inBackground ? 'background' : 'whole') : undefined,
      looksForError: isUndecided,
      dropsUsageChunk: this.#asksForUsage,
      repairsVectors: endpoint.answersVectors && body.wantsBase64 && response.status < 300,
    });
  }

  #openUsage(): OpenUsage {
    const { apiRequest, info, estimatedTokens: inputTokens, output } = this.#request;
    const upstream = this.#route.order[0].name;
    return openRecord(apiRequest, info, { upstream, inputTokens, output, startedAt: this.#startedAt });
  }

  #closeUsage(open: OpenUsage, { name: upstream }: Upstream, sent: CallEnding): void {
    const { endpoint, output } = this.#request;
    const ending = this.#meter.hasFailed ? 'upstream_failed' : sent;
    const metered = { estimatedInput: open.inputTokens, output, ending, endpoint };
    const end = {
      upstream,
      ending,
      durationMs: performance.now() - this.#started,
      firstByteMs: this.#firstByteMs,
    };
    const record = closedRecord(open, finalUsage(this.#meter, metered), end);
    this.#span?.used(record);
    if (this.#running) {
      // only the events of a stream say how it has ended
      const hasEnded = this.#meter.events > 0 && (ending === 'complete' || !record.estimated);
      if (hasEnded) void this.#deps.backgroundResponses.ended(this.#running, record);
      return;
    }
    // charge first: a record that cannot be stored gives its charge back
    for (const admission of this.#route.admissions) admission.closed(record);
    this.#deps.usageRecorder.closed(record);
  }

  /** What runs on is counted when it has ended, by whichever process finds that out. */
  #follow(running: Pick<StoredObject, 'id' | 'userId'>, { id }: OpenUsage): void {
    this.#running = running;
    this.#deps.usageRecorder.dropped(id);
    const meter = this.#meter;
    const tokensStreamed = this.#request.body.stream ? () => tokensSeen(meter) : undefined;
    this.#deps.backgroundResponses.started(running, this.#route.admissions, tokensStreamed);
  }

  #dropUsage({ id }: OpenUsage): void {
    if (this.#running) return;
    this.#deps.usageRecorder.dropped(id);
    for (const admission of this.#route.admissions) admission.dropped();
  }
}
