import type { IncomingMessage, ServerResponse } from 'node:http';
import { isUint8Array } from 'node:util/types';
import type { webhooks } from '../api.d.ts';
import type { RawBody } from '../deliveries/signature.ts';
import { ReceiverError } from './receiver-error.ts';
import { checkServiceSignature, checkStandardWebhook, toSecrets } from './verify.ts';

/**
 * An event as it is delivered: narrow it by `type`. While webhooks are in beta a type may come that is not
 * listed here yet, so keep a default branch.
 */
export type WebhookEvent = {
  [Type in keyof webhooks]: webhooks[Type]['post']['requestBody']['content']['application/json'];
}[keyof webhooks];

/**
 * What {@link webhookReceiver} takes.
 * @typeParam Event the events that come: add those of your own types, `WebhookEvent | { type: 'order.shipped'; … }`
 */
export interface WebhookReceiverOptions<
  Request extends IncomingMessage = IncomingMessage,
  Event extends { readonly type: string } = WebhookEvent,
> {
  /** The webhook's secret; several while one replaces another. */
  readonly secret: string | readonly string[];
  /**
   * Called with each event whose signature is right. The sender waits for it, 30 s at most: do long work afterwards.
   * The same event may come again, so remember the `event.id`s that were handled. When it throws, the sender tries again later.
   */
  readonly onEvent: (event: Event, req: Request) => unknown;
  /**
   * How far the signed `webhook-timestamp` may be from this machine's clock, in seconds, so that a recorded delivery cannot be sent again later.
   * @default 300
   */
  readonly tolerance?: number;
  /**
   * Whether a delivery must have the signed timestamp (`webhook-id`, `webhook-timestamp`, `webhook-signature`). Without it, who has recorded a
   * delivery can take these headers off and send it again whenever they like. Deliveries of this package always have them.
   * @default false: `x-service-signature` alone is what the service promises
   */
  readonly requireTimestamp?: boolean;
  /** The longest body taken, in bytes, where the receiver reads it itself. @default 1_048_576 (1 MiB) */
  readonly maxBytes?: number;
  /**
   * Told what `onEvent` threw; and, as a {@link ReceiverError} with a `code`, why a delivery was refused: `no_secret_matched`, say. The sender
   * of a refused delivery is not told. Anybody can send one, so limit what you write. `body_incomplete` is not reported. The answer waits for
   * it; what it throws goes to `next`.
   * @default console.error, for refused deliveries once a minute for each code
   */
  readonly onError?: (error: unknown, req: Request) => unknown;
}

/** Middleware for Express 4 and 5. */
export type WebhookReceiver<Request extends IncomingMessage = IncomingMessage> = (
  req: Request,
  res: ServerResponse,
  next: (error?: unknown) => void,
) => void;

/** How often the same reason is written to the console: anybody can send requests without a signature. Milliseconds. */
const refusalInterval = 60_000;

/** Writes errors to the console, and refused deliveries once a minute for each reason. */
function createConsoleLog(): (error: unknown) => void {
  const writtenAt = new Map<string, number>();
  return (error) => {
    if (!(error instanceof ReceiverError)) return console.error('webhook receiver:', error);
    const { code, message } = error;
    if (performance.now() - (writtenAt.get(code) ?? Number.NEGATIVE_INFINITY) < refusalInterval) return;
    writtenAt.set(code, performance.now());
    console.error(`webhook receiver: refused a delivery (${code}): ${message}`);
  };
}

function parse<Event>(rawBody: RawBody): Event {
  const text = typeof rawBody === 'string' ? rawBody : Buffer.from(rawBody).toString('utf8');
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new ReceiverError('body_not_json', 'the body is not JSON', { cause });
  }
}

function send(res: ServerResponse, status: number, body: object): void {
  if (res.headersSent || res.destroyed) return;
  res.statusCode = status;
  res.setHeader('content-type', 'application/json');
  res.end(JSON.stringify(body));
}

/**
 * Receives webhooks: `app.post('/webhooks', webhookReceiver({ secret, onEvent }))`. Answers 200 `{"received":true}` for
 * a handled event, 401 for a wrong signature or a timestamp that is too far away, 500 when the handler throws, each with `{"error"}` as the body.
 * @throws TypeError for a missing secret or handler, and for a secret in quotes or with white space around it
 * @see docs/receiving.md, "Verify a delivery"
 */
export function webhookReceiver<
  Request extends IncomingMessage = IncomingMessage,
  Event extends { readonly type: string } = WebhookEvent,
>(options: WebhookReceiverOptions<Request, Event>): WebhookReceiver<Request> {
  const { onEvent, maxBytes = 1024 * 1024, onError = createConsoleLog() } = options;
  const { tolerance = 300, requireTimestamp: required = false } = options;
  const secrets = toSecrets('webhookReceiver', options.secret);
  if (!(tolerance > 0 && Number.isFinite(tolerance))) {
    throw new TypeError('webhookReceiver: tolerance must be a number of seconds above 0, such as 300');
  }
  if (typeof required !== 'boolean') throw new TypeError('webhookReceiver: requireTimestamp must be true or false');
  if (typeof onEvent !== 'function') throw new TypeError('webhookReceiver: onEvent must be a function');

  async function verifiedEvent(req: Request): Promise<Event> {
    const rawBody = await rawBodyOf(req, maxBytes);
    checkServiceSignature(rawBody, req.headers['x-service-signature'], secrets);
    checkStandardWebhook(req.headers, rawBody, { secrets, tolerance, required, now: Date.now() });
    return parse(rawBody);
  }

  async function receive(req: Request, res: ServerResponse): Promise<void> {
    try {
      await onEvent(await verifiedEvent(req), req);
      send(res, 200, { received: true });
    } catch (error) {
      const refusal = error instanceof ReceiverError ? error : undefined;
      const { status, message } = refusal ?? { status: 500, message: 'the handler failed' };
      // the owner can do nothing about a sender that leaves
      if (refusal?.code !== 'body_incomplete') await onError(error, req);
      // one answer to every wrong signature: which part of it is wrong would help to forge or repeat one
      send(res, status, { error: status === 401 ? 'the signature is invalid' : message });
    }
  }

  return function receiveWebhook(req, res, next) {
    receive(req, res).catch(next);
  };
}

/** Where the gateway's `keepRawBody` leaves the bytes; registered, so that it is the same in every copy of the package. */
const rawBodyKey = Symbol.for('express-model-gateway.rawBody');

/** A request, and the places where hosts and platforms leave its raw body. */
interface Received extends IncomingMessage {
  [rawBodyKey]?: unknown;
  /** By custom of `express.json({ verify })` recipes, and of cloud functions. */
  rawBody?: unknown;
  /** Bytes after `express.raw()`, a text after `express.text()`, anything after `express.json()`. */
  body?: unknown;
}

function isRaw(body: unknown): body is RawBody {
  return typeof body === 'string' || isUint8Array(body);
}

const bodyIsGone =
  'the raw body is gone: another parser read it before the webhook receiver. Mount the receiver before express.json(), ' +
  'or keep the bytes with express.json({ verify: (req, res, bytes) => { req.rawBody = bytes } })';

/**
 * The body exactly as it came: what a parser before us kept of it, or else read from the request.
 * @throws ReceiverError `body_parsed` when another parser has read it and kept nothing, `body_too_large` when it is longer than `maxBytes`, `body_incomplete`
 */
async function rawBodyOf(req: IncomingMessage, maxBytes: number): Promise<RawBody> {
  const received = req as Received;
  const body = [received[rawBodyKey], received.rawBody, received.body].find(isRaw);
  if (body !== undefined) return body;
  if (req.readableDidRead) throw new ReceiverError('body_parsed', bodyIsGone);
  return readBody(req, maxBytes);
}

/** @throws ReceiverError `body_too_large`, by its announced length too; `body_incomplete` */
async function readBody(req: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const tooLarge = () => new ReceiverError('body_too_large', `the body is larger than ${maxBytes} bytes`);
  if (Number(req.headers['content-length'] ?? 0) > maxBytes) throw tooLarge();
  const chunks: Buffer[] = [];
  let length = 0;
  try {
    // a request that is destroyed cannot be answered
    for await (const chunk of req.iterator({ destroyOnReturn: false })) {
      length += chunk.length;
      if (length > maxBytes) throw tooLarge();
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  } catch (cause) {
    if (cause instanceof ReceiverError) throw cause;
    throw new ReceiverError('body_incomplete', 'the body did not arrive whole', { cause });
  }
}
