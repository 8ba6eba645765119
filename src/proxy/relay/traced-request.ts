import { inSpan, type UpstreamSpan } from '../../operator/tracing.ts';
import type { RequestConfig } from '../../outbound/client.ts';
import type { OutboundResponse } from '../../outbound/exchange.ts';
import { OutboundError } from '../../outbound/outbound-error.ts';
import type { CallDeadline } from '../call-deadline.ts';
import type { Upstream } from '../routing/upstream.ts';

/** Where a request goes, by when, and in which span. */
interface Sending {
  readonly upstream: Upstream;
  readonly deadline: CallDeadline;
  /** `undefined` where there is no SDK. The caller ends it, with the answer's body. */
  readonly span: UpstreamSpan | undefined;
}

/** Sends a request in its span, by the deadline; resolves when the head of the answer is there. */
export async function sendTraced(
  { upstream, deadline, span }: Sending,
  request: RequestConfig,
): Promise<OutboundResponse> {
  try {
    if (!span) return await upstream.http.relay(request);
    const response = await inSpan(span.span, () => upstream.http.relay(request));
    span.answered(response.status);
    return response;
  } catch (error) {
    span?.failed(error instanceof OutboundError ? error.code : '_OTHER');
    throw error;
  } finally {
    deadline.disarm();
  }
}
