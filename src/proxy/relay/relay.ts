import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import type { ApiRequest } from '../../http/operation.ts';
import type { CallEnding, Logger, ModelCall, OpenUsage } from '../../options/options.ts';
import type { OutboundResponse } from '../../outbound/exchange.ts';
import { OutboundError } from '../../outbound/outbound-error.ts';
import { type Admission, type AdmissionCheck, type RequestedCall, requestAdmission } from '../admission.ts';
import { requireAllowedModel } from '../allowed-models.ts';
import { CallDeadline } from '../call-deadline.ts';
import type { Endpoint } from '../endpoint.ts';
import { failure, failureOf } from '../failure.ts';
import { acceptsEncoding, isEncoded, upstreamRequestHeaders } from '../headers.ts';
import { estimateInput } from '../metering/estimate-input.ts';
import { finalUsage } from '../metering/final-usage.ts';
import { createUsageMeter, type UsageMeter } from '../metering/usage-meter.ts';
import { closedRecord, openRecord, type UsageRecorder } from '../metering/usage-record.ts';
import { withAccountsIdempotencyKey } from '../request/idempotency-key.ts';
import { bodyFor, type ModelBody } from '../request/model-body.ts';
import { checkModelName } from '../request/model-name.ts';
import { type RetryPolicy, tryUpstreams, type UpstreamResponse } from '../routing/attempts.ts';
import { route } from '../routing/choice.ts';
import { type Upstream, upstreamModelName } from '../routing/upstream.ts';
import { CallPlace } from '../routing/upstream-calls.ts';
import { isMasked, sendMasked } from './masked-error.ts';
import { sendResponse } from './send-response.ts';

/** Told what hosts want to know; nothing of it is waited for but `onRequest`. */
export interface RelayHooks {
  onRequest(call: ModelCall): Promise<{ readonly model?: string } | undefined>;
  onResponse(call: ModelCall, upstream: string, status: number, firstByteMs: number): void;
}

export interface RelayDependencies {
  readonly upstreams: readonly Upstream[];
  readonly retry: RetryPolicy;
  readonly usageRecorder: UsageRecorder;
  readonly hooks: RelayHooks | undefined;
  /** Which checks may refuse a call, in this order. */
  readonly admissionChecks: readonly AdmissionCheck[];
  /** What keeps the idempotency keys of one account from being those of another. */
  readonly idempotencySecret: Buffer;
  /** Whether the name of the upstream that answered is sent down as `x-gateway-upstream`. */
  readonly exposeUpstream: boolean;
  readonly logger: Logger;
  /** Whether an upstream's call ends with the client's. */
  readonly abortOnDisconnect: boolean;
}

/** How long the usage is waited for where all but that had come when the client left. Milliseconds. */
const usageGrace = 1_000;

/** Relays one call of an endpoint. */
export type Relay = (endpoint: Endpoint, call: ApiRequest, res: ServerResponse) => Promise<void>;

/** Refuses answers that are about the gateway's own standing with the upstream, or that a caller could not read. */
function requireRelayable({ response }: UpstreamResponse, call: ApiRequest): void {
  const { status, headers } = response;
  const unreadable = isEncoded(headers) && !acceptsEncoding(call.headers, String(headers['content-encoding']));
  if (status === 401 || status === 403) {
    response.data.destroy();
    throw failure('upstream_auth_failed');
  }
  if (unreadable || (status >= 300 && status < 400)) {
    response.data.destroy();
    throw failure('upstream_invalid_response');
  }
}

/** One call: what is known of it, and its steps from the client's bytes to the upstream's. */
class RelayedCall {
  readonly #startedAt = Date.now();
  readonly #started = performance.now();
  #firstByteMs = 0;
  /** The upstream that is at work on the call: it was sent there and has not failed. */
  #working: Upstream | undefined;
  readonly #headers: IncomingHttpHeaders;
  readonly #meter: UsageMeter;
  readonly #place: CallPlace;

  constructor(
    readonly deps: RelayDependencies,
    readonly endpoint: Endpoint,
    readonly call: ApiRequest,
    readonly body: ModelBody,
    readonly model: string | undefined,
    readonly order: readonly Upstream[],
    readonly deadline: CallDeadline,
    readonly requested: RequestedCall,
    readonly admissions: readonly Admission[],
  ) {
    this.#headers = withAccountsIdempotencyKey(call.headers, call.principal.userId, deps.idempotencySecret);
    this.#meter = createUsageMeter(endpoint, body);
    this.#place = new CallPlace(call.principal.userId);
    deadline.graceOnDisconnect = this.#graceOnDisconnect;
  }

  async run(res: ServerResponse): Promise<void> {
    const answering = tryUpstreams(
      this.order,
      this.#send,
      { ...this.deps.retry, userId: this.call.principal.userId, place: this.#place },
      this.deadline,
    );
    const usage = this.#openUsage();
    this.deps.usageRecorder.opened(usage);
    let answered = false;
    try {
      const answer = await answering;
      this.#firstByteMs = performance.now() - this.#started;
      // nobody is asked again: an answer may take minutes, and the bytes that were sent have no use any more
      this.call.releaseBody();
      this.body.bytes = this.call.rawBody;
      const { upstream, response } = answer;
      this.deps.hooks?.onResponse(this.requested.info, upstream.name, response.status, this.#firstByteMs);
      requireRelayable(answer, this.call);
      answered = response.status < 300;
      const ending = await this.#sendDown(answer, res);
      if (answered) this.#closeUsage(usage, upstream, ending);
      else this.#dropUsage(usage);
    } catch (error) {
      // what a client asked for and did not wait for has been worked on all the same
      if (this.deadline.clientLeft && this.#working) this.#closeUsage(usage, this.#working, 'client_left');
      else this.#dropUsage(usage);
      throw error;
    } finally {
      this.#place.release();
    }
  }

  #send = async (upstream: Upstream): Promise<OutboundResponse> => {
    const { call, endpoint, body, deadline, model } = this;
    const upstreamModel = model === undefined ? undefined : upstreamModelName(upstream, model);
    try {
      const response = await upstream.http.relay({
        method: 'POST',
        url: upstream.baseUrl + endpoint.path,
        headers: upstreamRequestHeaders(this.#headers, upstream.headers, call.requestId),
        data: bodyFor(body, upstreamModel, endpoint.streamsUsage && upstream.includeUsage),
        signal: deadline,
        // until then the connection has a limit of its own
        onSend: () => {
          this.#working = upstream;
          this.#meter.sent();
          deadline.arm(upstream.timeouts.firstByte);
        },
      });
      if (response.status >= 300) this.#working = undefined;
      return response;
    } catch (error) {
      if (!deadline.aborted) this.#working = undefined;
      throw error;
    } finally {
      deadline.disarm();
    }
  };

  #sendDown({ upstream, response }: UpstreamResponse, res: ServerResponse): Promise<CallEnding> {
    const { call, deadline, deps } = this;
    const shownUpstream = deps.exposeUpstream ? upstream.name : undefined;
    if (isMasked(upstream, response))
      return sendMasked({ upstream, response, shownUpstream, res, call, deadline }, deps.logger);
    return sendResponse({
      shownUpstream,
      response,
      res,
      deadline,
      betweenChunks: upstream.timeouts.betweenChunks,
      meter: this.#meter,
      endsInDone: this.endpoint.streamsUsage,
      dropsUsageChunk: this.endpoint.streamsUsage && upstream.includeUsage && !this.body.wantsUsage,
      repairsVectors: this.endpoint.answersVectors && this.body.wantsBase64 && response.status < 300,
    });
  }

  /** An upstream that has not begun, or has refused, is left at once. */
  #graceOnDisconnect = (): number => {
    if (!this.#working) return 0;
    if (!this.deps.abortOnDisconnect) return Number.POSITIVE_INFINITY;
    return this.#meter.isEnded && !this.#meter.reported ? usageGrace : 0;
  };

  #openUsage(): OpenUsage {
    const { info, estimatedTokens: inputTokens } = this.requested;
    const upstream = this.order[0]?.name ?? '';
    return openRecord(this.call, info, { upstream, inputTokens, startedAt: this.#startedAt });
  }

  #closeUsage(open: OpenUsage, { name: upstream }: Upstream, ending: CallEnding): void {
    const { answersImages, answersVectors } = this.endpoint;
    const { output } = this.body;
    const metered = { estimatedInput: open.inputTokens, output, ending, answersImages, answersVectors };
    const end = {
      upstream,
      ending,
      durationMs: performance.now() - this.#started,
      firstByteMs: this.#firstByteMs,
    };
    const record = closedRecord(open, finalUsage(this.#meter, metered), end);
    // first what it cost: a record that cannot be kept gives that back
    for (const admission of this.admissions) admission.closed(record);
    this.deps.usageRecorder.closed(record);
  }

  #dropUsage({ id }: OpenUsage): void {
    this.deps.usageRecorder.dropped(id);
    for (const admission of this.admissions) admission.dropped();
  }
}

/** Makes the one function every model endpoint comes down to. It throws a GatewayError as long as nothing was sent down. */
export function createRelay(deps: RelayDependencies): Relay {
  return async function relay(endpoint, call, res) {
    const body = endpoint.readBody(call);
    checkModelName(body.model);
    requireAllowedModel(call.principal, body.model);
    const { requestId, principal } = call;
    const info = { requestId, principal, endpoint: endpoint.path, model: body.model, stream: body.stream };
    const estimatedTokens = estimateInput(body);
    const requested = { info, estimatedTokens, output: body.output };
    const admissions = await requestAdmission(deps.admissionChecks, requested, res);
    let { model } = body;
    let order: readonly [Upstream, ...Upstream[]];
    try {
      if (deps.hooks) model = (await deps.hooks.onRequest(info))?.model ?? model;
      order = route(deps.upstreams, model);
    } catch (error) {
      for (const admission of admissions) admission.dropped();
      throw error;
    }

    deps.retry.budget.earn();
    const deadline = new CallDeadline(call.client, order[0].timeouts.total);
    try {
      await new RelayedCall(deps, endpoint, call, body, model, order, deadline, requested, admissions).run(res);
    } catch (error) {
      // the client has left: there is nobody to answer
      if (deadline.clientLeft) return;
      throw error instanceof OutboundError ? failureOf(error) : error;
    } finally {
      deadline.release();
    }
  };
}
