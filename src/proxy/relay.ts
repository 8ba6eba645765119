import type { ServerResponse } from 'node:http';
import { GatewayError } from '../errors.ts';
import type { Call } from '../http/operation.ts';
import { newId } from '../ids.ts';
import type { CallEnding, ModelCall, OpenUsage, UsageRecord } from '../options.ts';
import type { HttpResponse } from '../outbound/client.ts';
import { OutboundError } from '../outbound/outbound-error.ts';
import { requireAllowedModel } from './allowed-models.ts';
import { type Answer, askInTurn, type RetryPolicy } from './attempts.ts';
import { choose } from './choice.ts';
import { Cutoff } from './cutoff.ts';
import type { Endpoint } from './endpoint.ts';
import { failure, failureOf } from './failure.ts';
import { type Gate, openGates, type Pass } from './gate.ts';
import { Gauge } from './gauge.ts';
import { acceptsEncoding, type HeaderValues, headersDown, headersUp, isEncoded } from './headers.ts';
import { estimateInput, type Metering, usedBy } from './metering.ts';
import { bodyFor, type ModelBody } from './model-body.ts';
import { sendDown } from './send-down.ts';
import { nameAt, type Upstream } from './upstream.ts';

/** Told what hosts want to know; nothing of it is waited for but `onRequest`. */
export interface RelayHooks {
  onRequest(call: ModelCall): Promise<{ readonly model?: string } | undefined>;
  onResponse(call: ModelCall, upstream: string, status: number, firstByteMs: number): void;
}

export interface RelayDependencies {
  readonly upstreams: readonly Upstream[];
  readonly retry: RetryPolicy;
  readonly metering: Metering;
  readonly hooks: RelayHooks | undefined;
  /** Who may refuse a call, in this order. */
  readonly gates: readonly Gate[];
  /** Whether the name of the upstream that answered is sent down as `x-gateway-upstream`. */
  readonly exposeUpstream: boolean;
}

/** Relays one call of an endpoint. */
export type Relay = (endpoint: Endpoint, call: Call, res: ServerResponse) => Promise<void>;

/** Refuses answers that are about the gateway's own standing with the upstream, or that a caller could not read. */
function refuse({ response }: Answer, call: Call): void {
  const { status } = response;
  const headers = response.headers as HeaderValues;
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
  /** The upstream that the call was last sent to. */
  #asked: Upstream | undefined;

  constructor(
    readonly deps: RelayDependencies,
    readonly endpoint: Endpoint,
    readonly call: Call,
    readonly body: ModelBody,
    readonly model: string | undefined,
    readonly order: readonly Upstream[],
    readonly cutoff: Cutoff,
    readonly info: ModelCall,
    readonly passes: readonly Pass[],
  ) {}

  async run(res: ServerResponse): Promise<void> {
    const answering = askInTurn(this.order, this.#ask, this.deps.retry, this.cutoff);
    const usage = this.#openUsage();
    this.deps.metering.opened(usage);
    let answered = false;
    try {
      const answer = await answering;
      this.#firstByteMs = performance.now() - this.#started;
      const { upstream, response } = answer;
      this.deps.hooks?.onResponse(this.info, upstream.name, response.status, this.#firstByteMs);
      refuse(answer, this.call);
      answered = response.status < 300;
      const gauge = this.#gauge();
      const ending = await this.#send(answer, gauge, res);
      if (answered) this.#closeUsage(usage, upstream, gauge, ending);
      else this.#dropUsage(usage);
    } catch (error) {
      // what a client asked for and did not wait for has been worked on all the same
      if (this.cutoff.clientLeft && this.#asked) this.#closeUsage(usage, this.#asked, this.#gauge(), 'client_left');
      else this.#dropUsage(usage);
      throw error;
    }
  }

  #ask = async (upstream: Upstream): Promise<HttpResponse> => {
    const { call, endpoint, body, cutoff, model } = this;
    this.#asked = upstream;
    const upstreamModel = model === undefined ? undefined : nameAt(upstream, model);
    cutoff.expect(upstream.timeouts.connect + upstream.timeouts.firstByte);
    try {
      return await upstream.http.request({
        method: 'POST',
        url: upstream.baseUrl + endpoint.path,
        headers: headersUp(call.headers, upstream, call.requestId),
        data: bodyFor(body, upstreamModel, endpoint.streamsUsage && upstream.includeUsage),
        signal: cutoff,
      });
    } finally {
      cutoff.rest();
    }
  };

  #send({ upstream, response }: Answer, gauge: Gauge, res: ServerResponse): Promise<CallEnding> {
    const headers = headersDown(response.headers as HeaderValues);
    if (this.deps.exposeUpstream) headers['x-gateway-upstream'] = upstream.name;
    return sendDown({
      response,
      headers,
      res,
      cutoff: this.cutoff,
      betweenChunks: upstream.timeouts.betweenChunks,
      gauge,
      dropsUsageChunk: this.endpoint.streamsUsage && upstream.includeUsage && !this.body.wantsUsage,
      repairsVectors: this.endpoint.answersVectors && this.body.wantsBase64 && response.status < 300,
    });
  }

  #gauge(): Gauge {
    if (!this.endpoint.answersImages) return new Gauge();
    return new Gauge(this.body.stream ? '.completed"' : '"b64_json"');
  }

  #openUsage(): OpenUsage {
    const { principal, requestId } = this.call;
    return {
      id: newId('use', this.#startedAt),
      requestId,
      userId: principal.userId,
      keyId: principal.keyId ?? null,
      endpoint: this.endpoint.path,
      model: this.body.model ?? null,
      upstream: this.order[0]?.name ?? '',
      inputTokens: estimateInput(this.body.bytes.length),
      startedAt: new Date(this.#startedAt),
    };
  }

  #closeUsage(open: OpenUsage, upstream: Upstream, gauge: Gauge, ending: CallEnding): void {
    const record: UsageRecord = {
      ...open,
      ...usedBy(gauge, open.inputTokens, ending),
      upstream: upstream.name,
      ending,
      durationMs: performance.now() - this.#started,
      firstByteMs: this.#firstByteMs,
    };
    this.deps.metering.closed(record);
    for (const pass of this.passes) pass.closed(record);
  }

  #dropUsage({ id }: OpenUsage): void {
    this.deps.metering.dropped(id);
    for (const pass of this.passes) pass.dropped();
  }
}

function notFound(model: string | undefined): GatewayError {
  const message = model === undefined ? 'No model provider is configured.' : `The model '${model}' does not exist.`;
  return new GatewayError('model_not_found', message, { param: 'model' });
}

interface Routed {
  readonly model: string | undefined;
  readonly order: readonly [Upstream, ...Upstream[]];
}

async function route({ hooks, upstreams }: RelayDependencies, call: ModelCall): Promise<Routed> {
  const hooked = await hooks?.onRequest(call);
  const model = hooked?.model ?? call.model;
  const [first, ...others] = choose(upstreams, model, Math.random);
  if (!first) throw notFound(model);
  return { model, order: [first, ...others] };
}

/** Makes the one function every model endpoint comes down to. It throws a GatewayError as long as nothing was sent down. */
export function createRelay(deps: RelayDependencies): Relay {
  return async function relay(endpoint, call, res) {
    const body = endpoint.readBody(call);
    requireAllowedModel(call.principal, body.model);
    const { requestId, principal } = call;
    const info = { requestId, principal, endpoint: endpoint.path, model: body.model, stream: body.stream };
    const passes = openGates(deps.gates, info, estimateInput(body.bytes.length), res);
    const { model, order } = await route(deps, info).catch((error) => {
      for (const pass of passes) pass.dropped();
      throw error;
    });

    deps.retry.budget.earn();
    const cutoff = new Cutoff(call.signal, order[0].timeouts.total);
    try {
      await new RelayedCall(deps, endpoint, call, body, model, order, cutoff, info, passes).run(res);
    } catch (error) {
      // the client has left: there is nobody to answer
      if (cutoff.clientLeft) return;
      throw error instanceof OutboundError ? failureOf(error) : error;
    } finally {
      cutoff.release();
    }
  };
}
