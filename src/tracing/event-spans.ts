import { ROOT_CONTEXT, type Span, SpanKind, trace } from '@opentelemetry/api';
import { activeTracer, inSpan, markFailed, spanContextOf, traceparentOf, validSpan } from './tracer.ts';

// By the conventions for messaging: the event is the message, and its type the destination.
const destination = 'messaging.destination.name';
const messageId = 'messaging.message.id';
const account = 'model_gateway.account.id';

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
  const newSpan = activeTracer()?.startSpan(`publish ${type}`, { kind: SpanKind.PRODUCER });
  const span = newSpan && validSpan(newSpan);
  if (!span) return publish(undefined);
  span.setAttributes({
    'messaging.operation.name': 'publish',
    'messaging.operation.type': 'send',
    [destination]: type,
    [account]: userId,
  });
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
  const tracer = activeTracer();
  if (!tracer) return fanOut();
  const { _id: id, type, userId, targets } = event;
  const publishing = spanContextOf(event.traceparent);
  const parent = publishing ? trace.setSpanContext(ROOT_CONTEXT, publishing) : ROOT_CONTEXT;
  const span = validSpan(tracer.startSpan(`fan out ${type}`, { kind: SpanKind.INTERNAL }, parent));
  if (!span) return fanOut();
  const count = { 'messaging.batch.message_count': targets.length };
  span.setAttributes({ [destination]: type, [messageId]: id, [account]: userId, ...count });
  return runInSpan(span, fanOut);
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
  const tracer = activeTracer();
  if (!tracer) return undefined;
  const publishing = spanContextOf(attempt.traceparent);
  const span = tracer.startSpan(`deliver ${attempt.type}`, {
    kind: SpanKind.CLIENT,
    root: true,
    ...(publishing && { links: [{ context: publishing }] }),
  });
  if (span.isRecording()) {
    span.setAttributes({
      'http.request.method': 'POST',
      'messaging.operation.name': 'deliver',
      'messaging.operation.type': 'send',
      [destination]: attempt.type,
      [messageId]: attempt.eventId,
      [account]: attempt.userId,
      'model_gateway.webhook.id': attempt.webhookId,
      'model_gateway.delivery.id': attempt.deliveryId,
      ...(attempt.number !== undefined && { 'model_gateway.delivery.attempt': attempt.number }),
    });
  }
  return validSpan(span);
}

/** Ends it. @param error why no status was received */
export function endAttemptSpan(span: Span, { status, error }: { status?: number; error?: string | undefined }): void {
  if (status !== undefined) span.setAttribute('http.response.status_code', status);
  const hasSucceeded = status !== undefined && status >= 200 && status < 300;
  if (!hasSucceeded) markFailed(span, status === undefined ? (error ?? 'unknown') : String(status));
  span.end();
}
