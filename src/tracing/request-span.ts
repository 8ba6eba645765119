import { type Span, SpanKind, trace } from '@opentelemetry/api';
import { activeTracer, markFailed, validSpan } from './tracer.ts';

/** A request that has ended. */
export interface TracedRequest {
  readonly requestId: string;
  readonly operation: string;
  readonly principal: { readonly userId: string } | undefined;
  readonly status: number | undefined;
  readonly code: string | undefined;
}

/**
 * Starts the server span of a request, by the conventions for HTTP. `undefined` where the host's instrumentation has made one, and where
 * there is no SDK. A `traceparent` of the client's is not read: whether clients are trusted so far is up to the host's instrumentation.
 * @param route the template of its path; `undefined` for none
 */
export function startRequestSpan(method: string, route: string | undefined): Span | undefined {
  const tracer = activeTracer();
  if (!tracer || trace.getActiveSpan()) return undefined;
  const span = tracer.startSpan(route === undefined ? method : `${method} ${route}`, {
    kind: SpanKind.SERVER,
    attributes: { 'http.request.method': method, ...(route !== undefined && { 'http.route': route }) },
  });
  return validSpan(span);
}

/** Ends it. Only what is the server's fault marks it as failed. */
export function endRequestSpan(span: Span, { requestId, operation, principal, status, code }: TracedRequest): void {
  if (span.isRecording()) {
    span.setAttributes({ 'model_gateway.request.id': requestId, 'model_gateway.operation': operation });
    if (principal) span.setAttribute('model_gateway.account.id', principal.userId);
    if (status !== undefined) span.setAttribute('http.response.status_code', status);
    if (code !== undefined) span.setAttribute('model_gateway.error.code', code);
    if ((status ?? 0) >= 500) markFailed(span, code ?? String(status));
  }
  span.end();
}
