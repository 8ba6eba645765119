import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import type { ApiRequest } from '../../http/operation.ts';
import { UpstreamSpan } from '../../operator/tracing.ts';
import type { Logger } from '../../options/options.ts';
import type { OutboundResponse } from '../../outbound/exchange.ts';
import type { CallDeadline } from '../call-deadline.ts';
import { upstreamRequestHeaders, withAccountsIdempotencyKey } from '../headers.ts';
import { UsageMeter } from '../metering/usage-meter.ts';
import { type DecodedResponse, decoded } from '../relay/decoded-body.ts';
import { isMasked, sendMasked } from '../relay/masked-error.ts';
import { requireRelayable } from '../relay/require-relayable.ts';
import { sendResponse } from '../relay/response/send-response.ts';
import { sendTraced } from '../relay/traced-request.ts';
import { type RoutedCall, tryUpstreams } from '../routing/retry.ts';
import type { RetryPolicy } from '../routing/retry-policy.ts';
import { type Upstream, upstreamUrl } from '../routing/upstream.ts';
import { CallPlace } from '../routing/upstream-calls.ts';

export interface StoredCallDependencies {
  readonly retry: RetryPolicy;
  /** Makes the idempotency keys of one account differ from those of another. */
  readonly idempotencySecret: Buffer;
  /** Whether answers name their upstream in `x-gateway-upstream`. */
  readonly exposeUpstream: boolean;
  /** Whether upstreams get the trace context of their requests. */
  readonly propagateTrace: boolean;
  readonly logger: Logger;
}

/** One request about what an upstream keeps. */
export interface StoredRequest {
  readonly apiRequest: ApiRequest;
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Below an upstream's base URL. */
  readonly path: string;
  /** The same, as a template. */
  readonly template: string;
  /** The upstreams that may answer it, in the order in which they are tried. */
  readonly order: readonly Upstream[];
  readonly deadline: CallDeadline;
  /** Called with an answer of 2xx before any of it is sent; what it returns is sent. */
  readonly onSuccess: (upstream: Upstream, response: DecodedResponse) => DecodedResponse | Promise<DecodedResponse>;
}

/** One call about what an upstream keeps. It calls no model, so it is neither metered nor charged. */
export class StoredCall implements RoutedCall<OutboundResponse> {
  readonly userId: string;
  readonly order: readonly Upstream[];
  readonly deadline: CallDeadline;
  readonly place: CallPlace;
  readonly #deps: StoredCallDependencies;
  readonly #request: StoredRequest;
  readonly #headers: IncomingHttpHeaders;
  /** The last request to an upstream. */
  #span: UpstreamSpan | undefined;

  constructor(deps: StoredCallDependencies, request: StoredRequest) {
    const { headers, principal } = request.apiRequest;
    this.userId = principal.userId;
    this.order = request.order;
    this.deadline = request.deadline;
    this.place = new CallPlace(this.userId);
    this.#deps = deps;
    this.#request = request;
    this.#headers = withAccountsIdempotencyKey(headers, this.userId, deps.idempotencySecret);
  }

  async run(res: ServerResponse): Promise<void> {
    const { apiRequest, onSuccess } = this.#request;
    try {
      const { upstream, response: received } = await tryUpstreams(this, this.#deps.retry);
      const response = decoded(received);
      apiRequest.releaseBody();
      requireRelayable(response, apiRequest);
      await this.#sendDown(upstream, response.status < 300 ? await onSuccess(upstream, response) : response, res);
    } finally {
      this.place.release();
      this.#span?.end();
    }
  }

  /** Sends the request to one upstream; resolves when the head of the answer is there. */
  async send(upstream: Upstream): Promise<OutboundResponse> {
    const { apiRequest, method, path, template } = this.#request;
    apiRequest.relayed.upstream = upstream.name;
    this.#span?.end();
    const span = UpstreamSpan.start({ upstream, method, path: template, apiRequest });
    this.#span = span;
    const { deadline } = this;
    const headers = upstreamRequestHeaders(this.#headers, upstream.headers, apiRequest.requestId);
    return sendTraced(
      { upstream, deadline, span },
      {
        method,
        url: upstreamUrl(upstream, path, apiRequest.search),
        headers: this.#deps.propagateTrace && span ? span.addTo(headers) : headers,
        ...(apiRequest.rawBody.length > 0 && { data: apiRequest.rawBody }),
        signal: deadline,
        onSend: () => deadline.arm(upstream.timeouts.firstByte),
      },
    );
  }

  async #sendDown(upstream: Upstream, response: DecodedResponse, res: ServerResponse): Promise<void> {
    const { apiRequest } = this.#request;
    const { deadline } = this;
    const shownUpstream = this.#deps.exposeUpstream ? upstream.name : undefined;
    if (isMasked(upstream, response)) {
      await sendMasked({ upstream, response, shownUpstream, res, apiRequest, deadline }, this.#deps.logger);
      return;
    }
    await sendResponse({
      shownUpstream,
      response,
      res,
      deadline,
      betweenChunks: upstream.timeouts.betweenChunks,
      meter: new UsageMeter({ choices: 1 }),
      asksForStream: apiRequest.query.stream === 'true',
      endsInDone: false,
      responseStream: 'resumed',
      dropsUsageChunk: false,
      repairsVectors: false,
    });
  }
}
