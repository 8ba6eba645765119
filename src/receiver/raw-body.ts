import type { IncomingMessage } from 'node:http';
import getRawBody from 'raw-body';
import type { RawBody } from '../deliveries/signature.ts';
import { ReceiverError } from './receiver-error.ts';

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
  return typeof body === 'string' || body instanceof Uint8Array;
}

const bodyIsGone =
  'the raw body is gone: another parser read it before the webhook receiver. Mount the receiver before express.json(), ' +
  'or keep the bytes with express.json({ verify: (req, res, bytes) => { req.rawBody = bytes } })';

async function read(req: IncomingMessage, maxBytes: number): Promise<Buffer> {
  try {
    return await getRawBody(req, { limit: maxBytes, length: req.headers['content-length'] ?? null });
  } catch (cause) {
    const tooLarge = (cause as getRawBody.RawBodyError).type === 'entity.too.large';
    throw tooLarge
      ? new ReceiverError('body_too_large', `the body is larger than ${maxBytes} bytes`, { cause })
      : new ReceiverError('body_incomplete', 'the body did not arrive whole', { cause });
  }
}

/**
 * The body exactly as it came: what a parser before us kept of it, or else read from the request.
 * @throws ReceiverError `body_parsed` when another parser has read it and kept nothing, `body_too_large` when it is longer than `maxBytes`, `body_incomplete`
 */
export async function rawBodyOf(req: IncomingMessage, maxBytes: number): Promise<RawBody> {
  const received = req as Received;
  const body = [received[rawBodyKey], received.rawBody, received.body].find(isRaw);
  if (body !== undefined) return body;
  if (req.readableDidRead) throw new ReceiverError('body_parsed', bodyIsGone);
  return read(req, maxBytes);
}
