import {
  type Attributes,
  type Context,
  context,
  isSpanContextValid,
  ProxyTracerProvider,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  type SpanOptions,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { readVersion } from '../version.ts';

// By the conventions for messaging: the event is the message, and its type the destination.
const destination = 'messaging.destination.name';
const messageId = 'messaging.message.id';
const account = 'model_gateway.account.id';
const requestId = 'model_gateway.request.id';
const answerStatus = 'http.response.status_code';
const version = readVersion();

function failureType(error: unknown): string {
  const code = (error as { readonly code?: unknown } | null | undefined)?.code;
  return typeof code === 'string' ? code : '_OTHER';
}

/** Runs work in a span, and ends the span when the work has ended. What the work throws marks it as failed. */
async function runInSpan<T>(span: Span, work: () => Promise<T>): Promise<T> {
  try {
    return await inSpan(span, work);
  } catch (error) {
    markFailed(span, failureType(error));
    throw error;
  } finally {
    span.end();
  }
}

/**
 * Publishes an event in a span. The function gets what is stored with the event, so that later spans, in other processes too, lead to
 * this one: its `traceparent`, or `undefined` where there is no SDK.
 */
export async function inPublishSpan<Published extends { readonly id: string }>(
  { type, userId }: { readonly type: string; readonly userId: string },
  publish: (traceparent: string | undefined) => Promise<Published>,
): Promise<Published> {
  const span = startSpan(`publish ${type}`, { kind: SpanKind.PRODUCER }, () => ({
    'messaging.operation.name': 'publish',
    'messaging.operation.type': 'send',
    [destination]: type,
    [account]: userId,
  }));
  if (!span) return publish(undefined);
  return runInSpan(span, async () => {
    const published = await publish(traceparentOf(span));
    span.setAttribute(messageId, published.id);
    return published;
  });
}

/** A stored event, as its fan-out is traced. */
interface TracedEvent {
  readonly _id: string;
  readonly type: string;
  readonly userId: string;
  readonly targets: readonly string[];
  readonly traceparent?: string;
}

/** Traces the fan-out of an event, as a child of the span that published it, until the given promise settles. */
export async function inFanOutSpan<T>(event: TracedEvent, fanOut: () => Promise<T>): Promise<T> {
  const { _id: id, type, userId, targets } = event;
  const publishing = spanContextOf(event.traceparent);
  const parent = publishing ? trace.setSpanContext(ROOT_CONTEXT, publishing) : ROOT_CONTEXT;
  const describe = () => ({
    [destination]: type,
    [messageId]: id,
    [account]: userId,
    'messaging.batch.message_count': targets.length,
  });
  const span = startSpan(`fan out ${type}`, { kind: SpanKind.INTERNAL }, describe, parent);
  return span ? runInSpan(span, fanOut) : fanOut();
}

/** An attempt to deliver an event. */
export interface TracedAttempt {
  readonly deliveryId: string;
  readonly eventId: string;
  readonly webhookId: string;
  readonly userId: string;
  /** The type of the event. */
  readonly type: string;
  /** `undefined` if it was asked for. */
  readonly number: number | undefined;
  /** The span that published the event; `undefined` if it was not traced. */
  readonly traceparent: string | undefined;
}

/**
 * Starts the span of an attempt: a separate trace, because it can be hours after the event, with a link to the span that
 * published the event. `undefined` where there is no SDK. The webhook is named by its id, never by its URL, which may hold a
 * secret.
 */
export function startAttemptSpan(attempt: TracedAttempt): Span | undefined {
  const publishing = spanContextOf(attempt.traceparent);
  const links = publishing ? [{ context: publishing }] : [];
  return startSpan(`deliver ${attempt.type}`, { kind: SpanKind.CLIENT, root: true, links }, () => ({
    'http.request.method': 'POST',
    'messaging.operation.name': 'deliver',
    'messaging.operation.type': 'send',
    [destination]: attempt.type,
    [messageId]: attempt.eventId,
    [account]: attempt.userId,
    'model_gateway.webhook.id': attempt.webhookId,
    'model_gateway.delivery.id': attempt.deliveryId,
    ...(attempt.number !== undefined && { 'model_gateway.delivery.attempt': attempt.number }),
  }));
}

/** Ends it. @param error why no status was received */
export function endAttemptSpan(span: Span, { status, error }: { status?: number; error?: string | undefined }): void {
  if (status !== undefined) span.setAttribute(answerStatus, status);
  const hasSucceeded = status !== undefined && status >= 200 && status < 300;
  if (!hasSucceeded) markFailed(span, status === undefined ? (error ?? 'unknown') : String(status));
  span.end();
}

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
  if (!activeTracer() || trace.getActiveSpan()) return undefined;
  // a sampler may decide by these, so the span begins with them
  const attributes = { 'http.request.method': method, ...(route !== undefined && { 'http.route': route }) };
  return startSpan(route === undefined ? method : `${method} ${route}`, { kind: SpanKind.SERVER, attributes });
}

/** Ends it. Only what is the server's fault marks it as failed. */
export function endRequestSpan(span: Span, request: TracedRequest): void {
  const { principal, status, code } = request;
  if (span.isRecording()) {
    span.setAttributes({ [requestId]: request.requestId, 'model_gateway.operation': request.operation });
    if (principal) span.setAttribute(account, principal.userId);
    if (status !== undefined) span.setAttribute(answerStatus, status);
    if (code !== undefined) span.setAttribute('model_gateway.error.code', code);
    if ((status ?? 0) >= 500) markFailed(span, code ?? String(status));
  }
  span.end();
}

/** A request to an upstream. */
export interface TracedUpstreamRequest {
  readonly upstream: { readonly name: string; readonly baseUrl: string };
  /** @default a response on a WebSocket is asked for */
  readonly method?: string;
  /** Below the upstream's base URL, as a template: without ids. */
  readonly path: string;
  /** The model, by the upstream's name. */
  readonly model?: string | undefined;
  readonly apiRequest: { readonly requestId: string; readonly principal: { readonly userId: string } };
}

/** What `gen_ai.operation.name` calls an endpoint. It has no name for the others. */
const operationNames: Readonly<Record<string, string>> = {
  '/chat/completions': 'chat',
  '/responses': 'chat',
  '/messages': 'chat',
  '/realtime': 'chat',
  '/completions': 'text_completion',
  '/embeddings': 'embeddings',
};

function addressOf(baseUrl: string) {
  const { protocol, hostname, port } = new URL(baseUrl);
  const defaultPort = protocol === 'https:' ? 443 : 80;
  return { 'server.address': hostname, 'server.port': port === '' ? defaultPort : Number(port) };
}

/**
 * One request to an upstream, from its start to the end of the answer's body. Follows the conventions for HTTP clients without
 * `url.full`: a query may hold secrets. The attributes `gen_ai.*` are those whose names have not changed since 2024.
 */
export class UpstreamSpan {
  readonly span: Span;

  private constructor(span: Span) {
    this.span = span;
  }

  /** `undefined` where there is no SDK. */
  static start({ upstream, method, path, model, apiRequest }: TracedUpstreamRequest): UpstreamSpan | undefined {
    const operation = operationNames[path];
    const span = startSpan(`${method ?? 'response'} ${path}`, { kind: SpanKind.CLIENT }, () => ({
      ...(method === undefined ? { 'network.protocol.name': 'websocket' } : { 'http.request.method': method }),
      'url.template': path,
      ...addressOf(upstream.baseUrl),
      ...(operation !== undefined && { 'gen_ai.operation.name': operation }),
      ...(model !== undefined && { 'gen_ai.request.model': model }),
      'model_gateway.upstream': upstream.name,
      [requestId]: apiRequest.requestId,
      [account]: apiRequest.principal.userId,
    }));
    return span && new UpstreamSpan(span);
  }

  /** These headers with its `traceparent`. */
  addTo(headers: Record<string, string>): Record<string, string> {
    return { ...headers, traceparent: traceparentOf(this.span) };
  }

  /** The upstream answered. */
  answered(status: number): void {
    this.span.setAttribute(answerStatus, status);
    if (status >= 400) markFailed(this.span, String(status));
  }

  /** The upstream did not answer, or not to the end. @param code why */
  failed(code: string): void {
    markFailed(this.span, code);
  }

  /** What the call has used, and how its answer ended. */
  used({ inputTokens, outputTokens, ending }: { inputTokens: number; outputTokens: number; ending: string }): void {
    this.span.setAttributes({ 'gen_ai.usage.input_tokens': inputTokens, 'gen_ai.usage.output_tokens': outputTokens });
    if (ending !== 'complete') this.failed(ending);
  }

  end(): void {
    this.span.end();
  }
}

// The API package alone, which does nothing until a host registers an SDK. It has no dependencies, and prom-client brings it anyway.

/** The gateway's tracer of the SDK that is registered now; `undefined` where there is none, so that nothing is made for it. */
function activeTracer(): Tracer | undefined {
  const provider = trace.getTracerProvider();
  const name = 'express-model-gateway';
  // a provider without an SDK would give spans that do nothing, but cost more than the question
  if (provider instanceof ProxyTracerProvider) return provider.getDelegateTracer(name, version);
  return provider.getTracer(name, version);
}

/**
 * Starts a span, sampled or not; `undefined` where there is no SDK, and for a span that leads nowhere.
 * @param describe its attributes, asked for only where somebody records them
 */
function startSpan(
  name: string,
  options: SpanOptions,
  describe?: () => Attributes,
  parent?: Context,
): Span | undefined {
  const span = activeTracer()?.startSpan(name, options, parent);
  if (!span || !isSpanContextValid(span.spanContext())) return undefined;
  if (describe && span.isRecording()) span.setAttributes(describe());
  return span;
}

/** Runs work with a span as the parent of what it starts. */
export function inSpan<T>(span: Span | undefined, work: () => T): T {
  return span ? context.with(trace.setSpan(context.active(), span), work) : work();
}

/** Marks a span as failed. Never with an error's text, which may quote what must not be shown. @param type a code, or a status */
function markFailed(span: Span, type: string): void {
  span.setAttribute('error.type', type);
  span.setStatus({ code: SpanStatusCode.ERROR });
}

/** A span in the form of the header `traceparent` (https://www.w3.org/TR/trace-context/, version 00). */
export function traceparentOf(span: Span): string {
  const { traceId, spanId, traceFlags } = span.spanContext();
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;
}

/** The span that a stored traceparent names; `undefined` if there is none. */
function spanContextOf(traceparent: string | undefined): SpanContext | undefined {
  if (traceparent === undefined) return undefined;
  const [, traceId = '', spanId = '', flags = ''] =
    /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/.exec(traceparent) ?? [];
  const spanContext = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
  return isSpanContextValid(spanContext) ? spanContext : undefined;
}
