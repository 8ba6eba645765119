import type { ServerResponse } from 'node:http';
import { GatewayError } from '../errors.ts';
import type { Call } from '../http/operation.ts';
import { newId } from '../ids.ts';
import type { CallEnding, ModelCall, OpenUsage, UsageRecord } from '../options.ts';
import type { OutboundResponse } from '../outbound/exchange.ts';
import { OutboundError } from '../outbound/outbound-error.ts';
import { requireAllowedModel } from './allowed-models.ts';
import { type Answer, askInTurn, type RetryPolicy } from './attempts.ts';
import { choose } from './choice.ts';
import { Cutoff } from './cutoff.ts';
import type { Endpoint } from './endpoint.ts';
import { failure, failureOf } from './failure.ts';
import { type Gate, openGates, type Pass } from './gate.ts';
import { Gauge } from './gauge.ts';
import { acceptsEncoding, headersUp, isEncoded } from './headers.ts';
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
      const sent = this.#send(answer, gauge, res);
      const ending = sent instanceof Promise ? await sent : sent;
      if (answered) this.#closeUsage(usage, upstream, gauge, ending);
      else this.#dropUsage(usage);
    } catch (error) {
      // what a client asked for and did not wait for has been worked on all the same
      if (this.cutoff.clientLeft && this.#working) this.#closeUsage(usage, this.#working, this.#gauge(), 'client_left');
      else this.#dropUsage(usage);
      throw error;
    }
  }

  #ask = async (upstream: Upstream): Promise<OutboundResponse> => {
    const { call, endpoint, body, cutoff, model } = this;
    const upstreamModel = model === undefined ? undefined : nameAt(upstream, model);
    try {
      const response = await upstream.http.send({
        method: 'POST',
        origin: upstream.origin,
        path: upstream.basePath + endpoint.path,
        headers: headersUp(call.headers, upstream.headers, call.requestId),
        body: bodyFor(body, upstreamModel, endpoint.streamsUsage && upstream.includeUsage),
        signal: cutoff,
        // until then the connection has a limit of its own
        onSend: () => {
          this.#working = upstream;
          cutoff.expect(upstream.timeouts.firstByte);
        },
      });
      if (response.status >= 300) this.#working = undefined;
      return response;
    } catch (error) {
      if (!cutoff.aborted) this.#working = undefined;
      throw error;
    } finally {
      cutoff.rest();
    }
  };

  #send({ upstream, response }: Answer, gauge: Gauge, res: ServerResponse): CallEnding | Promise<CallEnding> {
    return sendDown({
      shownUpstream: this.deps.exposeUpstream ? upstream.name : undefined,
      response,
      res,
      cutoff: this.cutoff,
      betweenChunks: upstream.timeouts.betweenChunks,
      gauge,
      endsInDone: this.endpoint.streamsUsage,
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
    const used = usedBy(gauge, open.inputTokens, ending);
    // every field by name: a copied object that gets further fields has a hidden class of its own, for every call anew
    const record: UsageRecord = {
      id: open.id,
      requestId: open.requestId,
      userId: open.userId,
      keyId: open.keyId,
      endpoint: open.endpoint,
      model: open.model,
      upstream: upstream.name,
      inputTokens: used.inputTokens,
      cachedInputTokens: used.cachedInputTokens,
      outputTokens: used.outputTokens,
      images: used.images,
      estimated: used.estimated,
      ending,
      startedAt: open.startedAt,
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

/** The upstreams that a model's calls go to, in turn. @throws GatewayError `model_not_found` */
function route(upstreams: readonly Upstream[], model: string | undefined): readonly [Upstream, ...Upstream[]] {
  const [first, ...others] = choose(upstreams, model, Math.random);
  if (!first) throw notFound(model);
  return [first, ...others];
}

/** Makes the one function every model endpoint comes down to. It throws a GatewayError as long as nothing was sent down. */
export function createRelay(deps: RelayDependencies): Relay {
  return async function relay(endpoint, call, res) {
    const body = endpoint.readBody(call);
    requireAllowedModel(call.principal, body.model);
    const { requestId, principal } = call;
    const info = { requestId, principal, endpoint: endpoint.path, model: body.model, stream: body.stream };
    const passes = openGates(deps.gates, info, estimateInput(body.bytes.length), res);
    let { model } = body;
    let order: readonly [Upstream, ...Upstream[]];
    try {
      if (deps.hooks) model = (await deps.hooks.onRequest(info))?.model ?? model;
      order = route(deps.upstreams, model);
    } catch (error) {
      for (const pass of passes) pass.dropped();
      throw error;
    }

    deps.retry.budget.earn();
    const cutoff = new Cutoff(call.departure, order[0].timeouts.total);
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
