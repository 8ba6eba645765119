import { type Span, SpanKind } from '@opentelemetry/api';
import { activeTracer, markFailed, traceparentOf, validSpan } from './tracer.ts';

/** A request to an upstream. */
export interface UpstreamRequest {
  readonly upstream: { readonly name: string; readonly baseUrl: string };
  readonly method: string;
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
  static start({ upstream, method, path, model, apiRequest }: UpstreamRequest): UpstreamSpan | undefined {
    const tracer = activeTracer();
    if (!tracer) return undefined;
    const span = validSpan(tracer.startSpan(`${method} ${path}`, { kind: SpanKind.CLIENT }));
    if (span?.isRecording()) {
      const operation = operationNames[path];
      span.setAttributes({
        'http.request.method': method,
        'url.template': path,
        ...addressOf(upstream.baseUrl),
        ...(operation !== undefined && { 'gen_ai.operation.name': operation }),
        ...(model !== undefined && { 'gen_ai.request.model': model }),
        'model_gateway.upstream': upstream.name,
        'model_gateway.request.id': apiRequest.requestId,
        'model_gateway.account.id': apiRequest.principal.userId,
      });
    }
    return span && new UpstreamSpan(span);
  }

  /** These headers with its `traceparent`. */
  addTo(headers: Record<string, string>): Record<string, string> {
    return { ...headers, traceparent: traceparentOf(this.span) };
  }

  /** The upstream answered. */
  answered(status: number): void {
    this.span.setAttribute('http.response.status_code', status);
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
