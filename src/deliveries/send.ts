import type { Transform } from 'node:stream';
import { createInflateRaw } from 'node:zlib';
import type { InternalAxiosRequestConfig } from 'axios';
import type { Dispatcher } from 'undici';
import {
  createDispatcher,
  createHttpClient,
  type DispatcherOptions,
  type HttpClient,
  type RequestConfig,
} from '../outbound/client.ts';
import { createDecoder } from '../outbound/content-decoder.ts';
import type { Abortable, OutboundResponse, ResponseBody } from '../outbound/exchange.ts';
import { type OutboundCode, OutboundError, outboundError } from '../outbound/outbound-error.ts';
import { endAttemptSpan, inSpan, startAttemptSpan, type TracedAttempt, traceparentOf } from '../tracing/spans.ts';
import { type DeliveryTarget, type SecretsInUse, secretsInUse } from '../webhooks/webhook.ts';
import type { Claim } from './claims.ts';
import type { CancelReason, DeliveryDocument } from './model.ts';
import { type RawBody, signBody, standardWebhookSignature } from './signature.ts';

/** Makes the signature headers of a body. It keeps the secrets out of axios' configuration, which might be printed. */
export type SignRequest = (body: Buffer) => Record<string, string>;

/** A delivery's request. */
interface SignedRequest extends RequestConfig {
  readonly data: Buffer;
  readonly sign: SignRequest;
}

/**
 * Signs a request right before it is sent. axios runs the interceptor that was added first last, so nothing changes the body
 * after it is signed.
 */
function signRequest(config: InternalAxiosRequestConfig): InternalAxiosRequestConfig {
  const { data, sign } = config as InternalAxiosRequestConfig & SignedRequest;
  config.headers.set(sign(data));
  return config;
}

/** The HTTP clients of deliveries. Both check the address before they connect. */
export interface DeliveryClients {
  /** Reuses connections. */
  readonly pooled: HttpClient;
  /** Opens a new connection for each request. */
  readonly fresh: HttpClient;
}

/** One POST. */
export interface DeliveryRequest {
  /** The delivery, for callers that wait for its attempt, and for its span. @default neither */
  readonly attempt?: TracedAttempt;
  readonly url: string;
  /** Without the signatures. */
  readonly headers: Record<string, string>;
  readonly body: Buffer;
  readonly sign: SignRequest;
  /** Asked after connecting, right before the first byte. @default always true */
  readonly maySend?: () => boolean;
}

/** The result of one POST. It has no status if none was received. */
export interface SendResult extends Partial<RecordedResponse> {
  /** From before the connection to the last byte that was read. Milliseconds. */
  readonly durationMs: number;
  /** Why no status was received. */
  readonly error?: OutboundCode;
  readonly response: string;
}

/**
 * Makes one POST and returns its result, failures included.
 * @throws NotSentError if nothing was sent and nothing may be sent any more
 */
export type Send = (request: DeliveryRequest) => Promise<SendResult>;

/** The lease was lost before the first byte of the request. */
export class NotSentError extends Error {
  override readonly name = 'NotSentError';

  constructor() {
    super('the lease on the attempt lapsed before the request could be written');
  }
}

/**
 * Whether the receiver had closed a reused connection before it could read the request: then this is no attempt yet. If the
 * connection closes later, the receiver may have read the request: that is a failed attempt.
 */
function wasStale(error: unknown): boolean {
  return error instanceof OutboundError && error.code === 'reset' && error.reusedSocket && error.isUnsent;
}

/**
 * Sends deliveries. One deadline covers connecting, the response's head and the part of its body that is read.
 * @param timeout milliseconds for the whole attempt
 * @param propagateTrace whether receivers get the trace context of attempts
 */
export function createSend(clients: DeliveryClients, timeout: number, propagateTrace = false): Send {
  async function post(request: SignedRequest): Promise<OutboundResponse> {
    try {
      return await clients.pooled.request(request);
    } catch (error) {
      if (!wasStale(error)) throw error;
      return clients.fresh.request(request);
    }
  }

  async function sendOnce(request: DeliveryRequest, traceparent: string | undefined): Promise<SendResult> {
    const { url, headers: shown, body: data, sign, maySend = () => true } = request;
    const headers = traceparent === undefined ? shown : { ...shown, traceparent };
    const started = performance.now();
    let isWritten = false;
    const onSend = () => {
      if (!maySend()) throw new NotSentError();
      isWritten = true;
    };
    const elapsed = () => Math.round(performance.now() - started);
    const deadline = new AttemptDeadline(timeout);
    try {
      const response = await post({ method: 'POST', url, headers, data, sign, signal: deadline, onSend });
      return { ...(await readResponse(response)), durationMs: elapsed() };
    } catch (error) {
      // another process has the attempt now: this one does not count, even if no connection could be made
      if (!isWritten && !maySend()) throw new NotSentError();
      const code = error instanceof OutboundError ? error.code : 'unknown';
      return { error: code, response: '', durationMs: elapsed() };
    } finally {
      deadline.clear();
    }
  }

  return async function send(request) {
    const span = request.attempt && startAttemptSpan(request.attempt);
    if (!span) return sendOnce(request, undefined);
    const traceparent = propagateTrace ? traceparentOf(span) : undefined;
    try {
      const result = await inSpan(span, () => sendOnce(request, traceparent));
      endAttemptSpan(span, result);
      return result;
    } catch (error) {
      endAttemptSpan(span, { error: 'not_sent' });
      throw error;
    }
  };
}

/** The rules for connections of deliveries. */
export type ClientOptions = Required<Pick<DispatcherOptions, 'allowAddress'>> &
  Pick<DispatcherOptions, 'allowHttp' | 'ca' | 'resolve' | 'connectTimeout'>;

/**
 * How long an idle connection is kept: shorter than receivers keep theirs. Otherwise requests would meet connections that are
 * being closed, and nothing would tell whether the receiver has read such a request. Milliseconds.
 */
const keepAlive = 1_500;

/** @param dispatcher guards the addresses */
function createSigningClient(dispatcher: Dispatcher): HttpClient {
  const client = createHttpClient(dispatcher);
  client.interceptors.request.use(signRequest, null, { synchronous: true });
  return client;
}

/** Makes separate pools: a connection that was opened without the address guard must never carry a delivery. */
export function createDeliveryClients(options: ClientOptions): DeliveryClients & { close(): Promise<void> } {
  const pooled = createDispatcher({ ...options, keepAlive });
  const fresh = createDispatcher({ ...options, keepAlive: 0 });
  return {
    pooled: createSigningClient(pooled),
    fresh: createSigningClient(fresh),
    async close() {
      await Promise.all([pooled.destroy(), fresh.destroy()]);
    },
  };
}

/** A timer that is later than this tells that the process was stopped, or kept busy for long. Milliseconds. */
const muchTooLate = 100;

/**
 * The deadline of one attempt. With an AbortSignal instead, a POST takes 1.25 times the CPU: 13 µs more (10 to 24 in five
 * interleaved rounds).
 */
class AttemptDeadline implements Abortable {
  aborted = false;
  reason: unknown = undefined;
  #listener: (() => void) | undefined;
  readonly #time: number;
  readonly #startedAt = performance.now();
  #timer: NodeJS.Timeout;
  #immediate: NodeJS.Immediate | undefined;

  /** @param time milliseconds */
  constructor(time: number) {
    this.#time = time;
    this.#timer = setTimeout(this.#onTimer, time);
  }

  /** Cancels the deadline. */
  clear(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
  }

  /** Keeps one listener at a time: the request that is under way. */
  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listener = listener;
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    if (this.#listener === listener) this.#listener = undefined;
  }

  /**
   * A process may have been stopped right before it wrote the request. The receiver gets the time that it lost by that, once
   * and at most as much as the whole attempt has.
   */
  #onTimer = (): void => {
    const late = performance.now() - this.#startedAt - this.#time;
    if (late <= muchTooLate) this.#afterReading();
    else this.#timer = setTimeout(this.#afterReading, Math.min(late, this.#time));
  };

  /**
   * A process that was stopped or busy runs its due timers before it reads what has arrived meanwhile: a response in
   * time, or the end of the connection, which it sees one turn of the event loop later.
   */
  #afterReading = (): void => {
    this.#immediate = setImmediate(() => {
      this.#immediate = setImmediate(this.#end);
    });
  };

  #end = (): void => {
    this.aborted = true;
    this.reason = outboundError('timeout');
    this.#listener?.();
  };
}

/** The fields of a delivery that decide whether it is still sent. */
type Judged = Pick<DeliveryDocument, 'test' | 'type'>;

/** Why the event is no longer sent to this webhook; `null` if it is. */
export function reasonToCancel({ test, type }: Judged, target: DeliveryTarget): CancelReason | null {
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
  const { startedAt } = claim;
  const { _id: deliveryId, eventId, webhookId, userId, type, test, attempt: number, traceparent } = claim.delivery;
  const isManual = claim.delivery.manual?.token === claim.token;
  const secrets = secretsInUse(target, startedAt);
  return {
    attempt: {
      deliveryId,
      eventId,
      webhookId,
      userId,
      type,
      number: isManual ? undefined : number,
      traceparent,
    },
    url: target.url,
    headers: shownHeaders({ eventId, startedAt, test, userAgent }),
    body,
    // the owner's headers are as secret as the signatures
    sign: (bytes) => ({ ...target.headers, ...signatureHeaders({ eventId, startedAt, secrets }, bytes) }),
    maySend,
  };
}

/** The input of the headers that may be shown. */
export interface ShownHeaderInput {
  readonly eventId: string;
  /** By the database's clock; receivers compare it with theirs. */
  readonly startedAt: Date;
  readonly test: boolean;
  readonly userAgent: string;
}

/** The input of the signatures of one POST, beside its body. */
export interface SignatureInput extends Pick<ShownHeaderInput, 'eventId' | 'startedAt'> {
  readonly secrets: SecretsInUse;
}

const seconds = (moment: Date) => Math.floor(moment.getTime() / 1000);

/** The headers of a delivery without its signatures. They can be derived from the attempt, so they are not stored with it. */
export function shownHeaders({ eventId, startedAt, test, userAgent }: ShownHeaderInput): Record<string, string> {
  return {
    'content-type': 'application/json',
    'user-agent': userAgent,
    'webhook-id': eventId,
    'webhook-timestamp': String(seconds(startedAt)),
    ...(test && { 'x-service-test': 'true' }),
  };
}

/**
 * The signatures of a delivery: `x-service-signature`, and that of Standard Webhooks
 * (https://github.com/standard-webhooks/standard-webhooks, spec 1.0.0) for receivers that want replay protection.
 */
export function signatureHeaders(
  { eventId, startedAt, secrets }: SignatureInput,
  body: RawBody,
): Record<string, string> {
  const signatures = secrets.standard.map((secret) =>
    standardWebhookSignature(eventId, seconds(startedAt), body, secret),
  );
  return { 'x-service-signature': signBody(body, secrets.service), 'webhook-signature': signatures.join(' ') };
}

/** How much of a response is read before the rest is dropped. Bytes. */
const readLimit = 4_096;
/** How much of it is stored. Bytes. */
const keepLimit = 1_024;
/** How long a body is read after its head. Milliseconds. */
const readTime = 2_000;
/** How much of a header is stored. Characters. */
const retryAfterLimit = 100;
const locationLimit = 2_048;
/** The first bytes that are decompressed are as many as are stored. */
const decoderOptions = { chunkSize: keepLimit };

/** The part of a response that is recorded. */
export interface RecordedResponse {
  readonly status: number;
  /** `Retry-After`, as it came. */
  readonly retryAfter?: string;
  /** `Location`, as it came. */
  readonly location?: string;
  /** The beginning of the body, as far as it came, as text; may be empty. */
  readonly response: string;
}

/** Text that can be stored and shown: no control characters except tab and newline. */
function withoutControls(text: string): string {
  return text.replace(/[^\P{Cc}\t\n]/gu, '');
}

type HeaderValue = string | string[] | undefined;

const firstOf = (value: HeaderValue) => (typeof value === 'object' ? value[0] : value);

/** The beginning of a header's first value. */
function headerText(value: HeaderValue, limit: number): string | undefined {
  const first = firstOf(value);
  return first && withoutControls(first).slice(0, limit);
}

/** Some servers send deflate without the zlib header that it has to have (RFC 9110, section 8.4.1.2), whose first byte ends in 8. */
function decoderFor(encoding: string, [first = 0]: Buffer): Transform | undefined {
  const isRaw = /^\s*deflate\s*$/i.test(encoding) && (first & 0x0f) !== 8;
  return isRaw ? createInflateRaw(decoderOptions) : createDecoder(encoding, decoderOptions);
}

/**
 * The beginning of what these bytes are when they are decompressed, as far as they go. It stops at the first bytes that are enough,
 * however many would follow. The bytes themselves, if nothing can be made of them. Never rejects.
 */
function decompressed(bytes: Buffer, encoding: string | undefined): Promise<Buffer> | Buffer {
  const decoder = encoding === undefined ? undefined : decoderFor(encoding, bytes);
  if (!decoder) return bytes;
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let length = 0;
    const end = () => resolve(length > 0 ? Buffer.concat(chunks) : bytes);
    decoder.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      length += chunk.length;
      if (length >= keepLimit) decoder.destroy();
    });
    // what was cut off ends with an error too
    decoder.on('error', () => {});
    decoder.on('close', end);
    decoder.end(bytes);
  });
}

/** Text in the charset of a `Content-Type`; UTF-8 if it names none, or one that Node does not know. Whole characters. */
function decode(bytes: Buffer, contentType = ''): string {
  const [, charset = 'utf-8'] = /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(contentType) ?? [];
  try {
    return new TextDecoder(charset).decode(bytes, { stream: true });
  } catch {
    return new TextDecoder().decode(bytes, { stream: true });
  }
}

/** The beginning of a body as a person can read it. */
async function toText(bytes: Buffer, headers: OutboundResponse['headers']): Promise<string> {
  if (bytes.length === 0) return '';
  const plain = await decompressed(bytes, firstOf(headers['content-encoding']));
  return withoutControls(decode(plain.subarray(0, keepLimit), firstOf(headers['content-type'])));
}

/**
 * Reads the first 4 KiB of a response, for 2 s at most, and drops the rest. The body is read for the record alone: if it breaks off,
 * this is what had come. Never rejects.
 */
async function readResponse({ status, headers, data }: OutboundResponse): Promise<RecordedResponse> {
  const retryAfter = headerText(headers['retry-after'], retryAfterLimit);
  const location = headerText(headers.location, locationLimit);
  const response = await toText(data.takeWhole() ?? (await readBeginning(data)), headers);
  return { status, ...(retryAfter && { retryAfter }), ...(location && { location }), response };
}

function readBeginning(body: ResponseBody): Promise<Buffer> {
  return new Promise((resolve) => {
    const bytes = Buffer.alloc(readLimit);
    let length = 0;
    const end = () => {
      clearTimeout(timer);
      resolve(bytes.subarray(0, length));
    };
    const drop = () => {
      body.destroy();
      end();
    };
    const timer = setTimeout(drop, readTime);
    body.flowTo({
      onChunk(chunk) {
        length += chunk.copy(bytes, length);
        if (length < readLimit) return true;
        drop();
        return false;
      },
      onEnd: end,
      onError: end,
    });
  });
}
