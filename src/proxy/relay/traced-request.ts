import type { RequestConfig } from '../../outbound/client.ts';
import type { OutboundResponse } from '../../outbound/exchange.ts';
import { OutboundError } from '../../outbound/outbound-error.ts';
import { inSpan } from '../../tracing/tracer.ts';
import type { UpstreamSpan } from '../../tracing/upstream-span.ts';
import type { CallDeadline } from '../call-deadline.ts';
import type { Upstream } from '../routing/upstream.ts';

/** One request of a call, to one upstream. */
interface TracedUpstreamRequest extends Omit<RequestConfig, 'signal'> {
  readonly headers: Record<string, string>;
  readonly upstream: Upstream;
  readonly deadline: CallDeadline;
  /** `undefined` where there is no SDK. The caller ends it, with the answer's body. */
  readonly span: UpstreamSpan | undefined;
  /** Whether the upstream gets the trace context. */
  readonly propagateTrace: boolean;
}

/** Sends a request in its span, by the deadline; resolves when the head of the answer is there. */
export async function sendTraced(request: TracedUpstreamRequest): Promise<OutboundResponse> {
  const { upstream, deadline, span, propagateTrace, ...config } = request;
  const sending = () =>
    upstream.http.relay({
      ...config,
      headers: propagateTrace && span ? span.addTo(config.headers) : config.headers,
      signal: deadline,
      // before that, connecting has its own time limit
      onSend() {
        config.onSend?.();
        deadline.arm(upstream.timeouts.firstByte);
      },
    });
  try {
    const response = await inSpan(span?.span, sending);
    span?.answered(response.status);
    return response;
  } catch (error) {
    span?.failed(error instanceof OutboundError ? error.code : '_OTHER');
    throw error;
  } finally {
    deadline.disarm();
  }
}
