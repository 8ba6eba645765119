import { timeSince } from '../mongo/clock.ts';
import {
  createDispatcher,
  createHttpClient,
  type DispatcherOptions,
  type HttpClient,
  type RequestConfig,
} from '../outbound/client.ts';
import { Deadline } from '../outbound/deadline.ts';
import { type BeginningLimits, firstHeader, type OutboundResponse, textOfBeginning } from '../outbound/exchange.ts';
import { OutboundError } from '../outbound/outbound-error.ts';
import { endAttemptSpan, inSpan, startAttemptSpan, type TracedAttempt, traceparentOf } from '../tracing/spans.ts';
import { type DeliveryTarget, secretsInUse } from '../webhooks/webhook.ts';
import type { AttemptResult } from './claims.ts';
import type { CancelReason, Claim, DeliveryDocument, FailureCode } from './model.ts';
import { shownHeaders, signatureHeaders } from './signature.ts';

/** One POST. */
export interface DeliveryRequest {
  /** The delivery, for callers that wait for its attempt, and for its span. @default neither */
  readonly attempt?: TracedAttempt;
  readonly url: string;
  /** Now, by the database's clock: what receivers compare with theirs, and what is recorded. @default not recorded */
  readonly startedAt?: Date;
  /** Without the signatures. */
  readonly headers: Record<string, string>;
  readonly body: Buffer;
  /** Makes the signature headers of a body. It keeps the secrets out of axios' configuration, which might be printed. */
  readonly sign: (body: Buffer) => Record<string, string>;
  /** Asked after connecting, right before the first byte. @default always true */
  readonly maySend?: () => boolean;
}

/**
 * Makes one POST and returns its result, failures included.
 * @throws NotSentError if nothing was sent and nothing may be sent any more
 */
export type Send = (request: DeliveryRequest) => Promise<AttemptResult>;

/** The lease was lost before the first byte of the request. */
export class NotSentError extends Error {
  override readonly name = 'NotSentError';

  constructor() {
    super('the lease on the attempt lapsed before the request could be written');
  }
}

/** The rules for connections of deliveries. */
export type ClientOptions = Required<Pick<DispatcherOptions, 'allowAddress'>> &
  Pick<DispatcherOptions, 'allowHttp' | 'ca' | 'resolve' | 'connectTimeout' | 'proxy'>;

/** The HTTP client of deliveries. It checks the address before it connects. */
export interface DeliveryClient extends Pick<HttpClient, 'request' | 'interceptors'> {
  close(): Promise<void>;
}

/**
 * How long an idle connection is kept: shorter than receivers keep theirs. Otherwise requests would meet connections that are
 * being closed, and nothing would tell whether the receiver has read such a request. Milliseconds.
 */
const keepAlive = 1_500;

/** What is signed. */
interface SignedRequest extends RequestConfig, Pick<DeliveryRequest, 'sign'> {
  readonly data: Buffer;
}

/**
 * Makes a client with its own connections: one that was opened without the address guard must never carry a delivery. It signs each request
 * right before it is sent. axios runs the interceptor that was added first last, so nothing changes the body after it is signed.
 */
export function createDeliveryClient(options: ClientOptions): DeliveryClient {
  const dispatcher = createDispatcher({ ...options, keepAlive });
  const { request, interceptors } = createHttpClient(dispatcher);
  interceptors.request.use(
    (config) => {
      const { data, sign } = config as typeof config & SignedRequest;
      config.headers.set(sign(data));
      return config;
    },
    null,
    { synchronous: true },
  );
  return { request, interceptors, close: () => dispatcher.destroy() };
}

/**
 * Sends deliveries. One deadline covers connecting, the response's head and the part of its body that is read. If the receiver closes a kept
 * connection before it can have read the request, that is no attempt yet; if later, it is a failed one.
 * @param timeout milliseconds for the whole attempt
 * @param propagateTrace whether receivers get the trace context of attempts
 */
export function createSend(client: DeliveryClient, timeout: number, propagateTrace = false): Send {
  return async function send({ attempt, url, startedAt, headers: shown, body: data, sign, maySend = () => true }) {
    const span = attempt && startAttemptSpan(attempt);
    const headers = span && propagateTrace ? { ...shown, traceparent: traceparentOf(span) } : shown;
    const sentAt = performance.now();
    const signal = new Deadline(timeout);
    let isWritten = false;
    const onSend = () => {
      if (!maySend()) throw new NotSentError();
      isWritten = true;
    };
    const request: SignedRequest = { method: 'POST', url, headers, data, sign, signal, onSend };
    let result: Omit<AttemptResult, 'durationMs'>;
    try {
      const response = await inSpan(span, () => client.request(request));
      result = await readResponse(response);
    } catch (error) {
      // another process has the attempt now: this one does not count, even if no connection could be made
      if (!isWritten && !maySend()) {
        if (span) endAttemptSpan(span, { error: 'not_sent' });
        throw new NotSentError();
      }
      result = resultOf(error);
    } finally {
      signal.release();
    }
    const durationMs = Math.round(performance.now() - sentAt);
    if (span) endAttemptSpan(span, { ...result, error: result.code });
    return { ...(startedAt && { startedAt }), durationMs, ...result };
  };
}

/** How much of a response is recorded, and how long its body is read after its head. Bytes, milliseconds. */
const beginning: BeginningLimits = { read: 4_096, keep: 1_024, time: 2_000 };
/** How much of a header is stored. Characters. */
const retryAfterLimit = 100;
const locationLimit = 2_048;

/** What is recorded of a response. The body is read for the record alone: if it breaks off, this is what had come. */
async function readResponse(response: OutboundResponse): Promise<Omit<AttemptResult, 'durationMs'>> {
  const { status, headers } = response;
  const code = failureOf(status);
  const retryAfter = withoutControls(firstHeader(headers, 'retry-after')).slice(0, retryAfterLimit);
  const location = withoutControls(firstHeader(headers, 'location')).slice(0, locationLimit);
  return {
    status,
    ...(code !== null && { code }),
    ...(retryAfter && { retryAfter }),
    ...(code === 'redirect' && location && { location }),
    response: withoutControls(await textOfBeginning(response, beginning)),
  };
}

/** What is recorded where no response could be read. The status decides here too: a receiver that has answered 200 has the event, whatever its head is like. */
function resultOf(error: unknown): Omit<AttemptResult, 'durationMs'> {
  if (!(error instanceof OutboundError)) return { code: 'unknown', response: '' };
  const { status, code: unread } = error;
  if (status === undefined) return { code: unread, response: '' };
  const code = failureOf(status);
  return { status, ...(code !== null && { code }), response: '' };
}

/** Text that can be stored and shown: no control characters except tab and newline. */
function withoutControls(text = ''): string {
  return text.replace(/[^\P{Cc}\t\n]/gu, '');
}

const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/**
 * Why an attempt failed that this status answered, or `null` if it succeeded. The status decides, whatever its body does: a 2xx is a
 * success, any other status is the reason itself. Redirects are not followed.
 */
function failureOf(status: number): FailureCode | null {
  if (status >= 200 && status < 300) return null;
  return redirects.has(status) ? 'redirect' : `http_${status}`;
}

/** Why the event is no longer sent to this webhook; `null` if it is. */
export function reasonToCancel(
  { test, type }: Pick<DeliveryDocument, 'test' | 'type'>,
  target: DeliveryTarget,
): CancelReason | null {
  if (!target.active) return 'webhook_inactive';
  return test || target.events.includes(type) ? null : 'unsubscribed';
}

/**
 * The POST of an attempt. It is signed when it is sent.
 * @param maySend whether the claim's lease surely lasts; asked right before the first byte
 */
export function toDeliveryRequest(
  claim: Claim,
  target: DeliveryTarget,
  body: Buffer,
  userAgent: string,
  maySend: () => boolean,
): DeliveryRequest {
  const startedAt = timeSince(claim.claimedAt);
  const { _id: deliveryId, eventId, webhookId, userId, type, test, attempt: number, traceparent } = claim.delivery;
  const isManual = claim.delivery.manual?.token === claim.token;
  const secrets = secretsInUse(target, startedAt);
  return {
    attempt: { deliveryId, eventId, webhookId, userId, type, number: isManual ? undefined : number, traceparent },
    url: target.url,
    startedAt,
    headers: shownHeaders({ eventId, startedAt, test, userAgent }),
    body,
    // the owner's headers are as secret as the signatures
    sign: (bytes) => ({ ...target.headers, ...signatureHeaders({ eventId, startedAt, secrets }, bytes) }),
    maySend,
  };
}
