// The API package alone, which does nothing until a host registers an SDK. It has no dependencies, and prom-client brings it anyway.
import {
  context,
  isSpanContextValid,
  ProxyTracerProvider,
  type Span,
  type SpanContext,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { readVersion } from '../version.ts';

let version: string | undefined;

/** The gateway's tracer of the SDK that is registered now; `undefined` where there is none, so that nothing is made for it. */
export function activeTracer(): Tracer | undefined {
  version ??= readVersion();
  const provider = trace.getTracerProvider();
  const name = 'express-model-gateway';
  // a provider without an SDK would give spans that do nothing, but cost more than the question
  if (provider instanceof ProxyTracerProvider) return provider.getDelegateTracer(name, version);
  return provider.getTracer(name, version);
}

/** A span that an SDK has made, sampled or not; `undefined` for one that leads nowhere. */
export function validSpan(span: Span): Span | undefined {
  return isSpanContextValid(span.spanContext()) ? span : undefined;
}

/** Runs work with a span as the parent of what it starts. */
export function inSpan<T>(span: Span | undefined, work: () => T): T {
  return span ? context.with(trace.setSpan(context.active(), span), work) : work();
}

/** Marks a span as failed. Never with an error's text, which may quote what must not be shown. @param type a code, or a status */
export function markFailed(span: Span, type: string): void {
  span.setAttribute('error.type', type);
  span.setStatus({ code: SpanStatusCode.ERROR });
}

/** A span in the form of the header `traceparent` (https://www.w3.org/TR/trace-context/, version 00). */
export function traceparentOf(span: Span): string {
  const { traceId, spanId, traceFlags } = span.spanContext();
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;
}

/** The span that a stored traceparent names; `undefined` if there is none. */
export function spanContextOf(traceparent: string | undefined): SpanContext | undefined {
  const [, traceId = '', spanId = '', flags = ''] =
    /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/.exec(traceparent ?? '') ?? [];
  const spanContext = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
  return isSpanContextValid(spanContext) ? spanContext : undefined;
}
