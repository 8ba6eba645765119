import type { IncomingHttpHeaders } from 'node:http';
import type { ApiRequest } from '../http/operation.ts';
import { inSpan, UpstreamSpan } from '../operator/tracing.ts';
import type { RequestConfig } from '../outbound/client.ts';
import { OutboundError } from '../outbound/outbound-error.ts';
import { type DecodedResponse, decoded } from './answer-body.ts';
import type { CallDeadline } from './call-deadline.ts';
import { upstreamRequestHeaders, withAccountsIdempotencyKey } from './headers.ts';
import { type Upstream, upstreamUrl } from './upstream.ts';

/** What the requests of every call share. */
export interface RequestOptions {
  /** Makes the idempotency keys of one account differ from those of another. */
  readonly idempotencySecret: Buffer;
  /** Whether upstreams get the trace context of their requests. */
  readonly propagateTrace: boolean;
}

/** One request to an upstream. */
export interface UpstreamRequest extends Pick<RequestConfig, 'method' | 'data'> {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Below the upstream's base URL. */
  readonly path: string;
  /** The same as a template, without ids. */
  readonly template: string;
  /** The model, by the upstream's name. */
  readonly model?: string | undefined;
  /** Called right before the request is written. */
  readonly onSend?: () => void;
}

/** The requests of one call to upstreams, one after the other, each in a span of its own. */
export class UpstreamRequests {
  readonly #apiRequest: ApiRequest;
  readonly #deadline: CallDeadline;
  readonly #headers: IncomingHttpHeaders;
  readonly #propagateTrace: boolean;
  #span: UpstreamSpan | undefined;

  constructor(apiRequest: ApiRequest, deadline: CallDeadline, { idempotencySecret, propagateTrace }: RequestOptions) {
    this.#apiRequest = apiRequest;
    this.#deadline = deadline;
    this.#headers = withAccountsIdempotencyKey(apiRequest.headers, apiRequest.principal.userId, idempotencySecret);
    this.#propagateTrace = propagateTrace;
  }

  /** The span of the last request; `undefined` where there is no SDK. It ends with the next request, or with the call. */
  get span(): UpstreamSpan | undefined {
    return this.#span;
  }

  /** Sends a request; resolves when the head of the answer is there. Rejects with an OutboundError. */
  async send(
    upstream: Upstream,
    { method, path, template, model, data, onSend }: UpstreamRequest,
  ): Promise<DecodedResponse> {
    const apiRequest = this.#apiRequest;
    const deadline = this.#deadline;
    apiRequest.relayed.upstream = upstream.name;
    this.#span?.end();
    const span = UpstreamSpan.start({ upstream, method, path: template, model, apiRequest });
    this.#span = span;
    const headers = upstreamRequestHeaders(this.#headers, upstream.headers, apiRequest.requestId);
    const request: RequestConfig = {
      method,
      url: upstreamUrl(upstream, path, apiRequest.search),
      headers: this.#propagateTrace && span ? span.addTo(headers) : headers,
      ...(data && { data }),
      signal: deadline,
      onSend: whenConnected(deadline, upstream, onSend),
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

  /** The call has ended. */
  end(): void {
    this.#span?.end();
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
