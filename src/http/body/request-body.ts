import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { GatewayError } from '../../errors.ts';
import { checkTree } from '../json/budget.ts';
import { outline, parseJson } from '../json/parse.ts';
import type { BodyShape } from '../json/scan.ts';
import type { FieldRange } from '../operation.ts';
import { announcesBody } from '../reply.ts';
import type { Route } from '../route.ts';
import { type BodyBounds, checkSize, readBody } from './read-body.ts';

/** The body that an operation gets. */
export interface RequestBody {
  /** The bytes, decompressed, and of JSON without a byte order mark; empty where there is no body. */
  readonly raw: Buffer;
  /** The parsed JSON; of a relayed body only what openapi.yaml describes. */
  readonly value?: unknown;
  /** Where the described fields of a relayed body stand, by path. */
  readonly fields?: ReadonlyMap<string, FieldRange>;
}

const noBody: RequestBody = Object.freeze({ raw: Buffer.alloc(0) });

type ParsedByHost = IncomingMessage & { readonly body?: unknown };

/** How the body of an operation is read. */
interface BodyPlan extends BodyBounds {
  readonly route: Route;
  /** Which fields of a relayed body are read. */
  readonly shape: BodyShape | undefined;
  /** Called when the exact bytes are lost, because the host parsed the body without `keepRawBody`. */
  readonly onReserialised: () => void;
}

/**
 * Reads the body of a request, even if the host has read it before, and parses it once.
 * Where an operation takes no body, it is read and dropped under the same limits.
 * @throws GatewayError `missing_required_parameter`, `unsupported_media_type`, `request_too_large`, `request_timeout`,
 * `invalid_encoding`, `invalid_json`, `duplicate_parameter`, `number_not_exact`, `unknown_parameter`, `rate_limit_exceeded`, `overloaded`
 */
export async function takeBody(
  req: IncomingMessage,
  headers: IncomingHttpHeaders,
  plan: BodyPlan,
): Promise<RequestBody> {
  const { route, shape } = plan;
  const takesBody = route.mediaTypes.size > 0;
  const missing = (): RequestBody => {
    if (route.bodyRequired) throw new GatewayError('missing_required_parameter', 'This request needs a body');
    return noBody;
  };

  if (!announcesBody(headers)) return missing();
  if (!takesBody && req.readableDidRead) return noBody;
  const mediaType = takesBody ? bodyMediaType(headers, route.mediaTypes) : '';
  const bytes = await takeBytes(req, headers, plan);
  checkSize(bytes.length, plan.limits);
  if (!takesBody) return noBody;
  const raw = mediaType === 'application/json' ? withoutByteOrderMark(bytes) : bytes;
  if (raw.length === 0) return missing();
  if (mediaType !== 'application/json') return { raw };
  if (shape) {
    const { value, fields } = await outline(raw, shape);
    return { raw, value, fields };
  }
  return { raw, value: parseJson(raw) };
}

/** Serialises again what the host has parsed; the bytes may differ from those that were sent. */
function serialiseAgain(body: unknown): Buffer {
  if (Buffer.isBuffer(body)) return body;
  if (typeof body === 'string') return Buffer.from(body);
  checkTree(body);
  return Buffer.from(JSON.stringify(body));
}

/** The bytes of a body that the host has read. */
function takeFromHost(
  req: ParsedByHost,
  rawBody: Buffer | undefined,
  { reservation, onReserialised }: BodyPlan,
): Buffer {
  if (!rawBody && req.body === undefined) {
    throw new Error('the host has read the body and left nothing of it: mount the gateway before what reads it');
  }
  if (!rawBody) onReserialised();
  const bytes = rawBody ?? serialiseAgain(req.body);
  reservation.grow(bytes.length);
  return bytes;
}

/** Takes the body from where it is: kept by the host, parsed by the host, or still unread. */
async function takeBytes(req: IncomingMessage, headers: IncomingHttpHeaders, plan: BodyPlan): Promise<Buffer> {
  const rawBody = keptBody(req);
  return rawBody || req.readableDidRead ? takeFromHost(req, rawBody, plan) : readBody(req, headers, plan);
}

const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

/** JSON without the byte order mark that some clients write, which no sender may add and a reader may ignore (RFC 8259, section 8.1). Upstreams refuse it. */
function withoutByteOrderMark(json: Buffer): Buffer {
  const { length } = byteOrderMark;
  return json.subarray(0, length).equals(byteOrderMark) ? json.subarray(length) : json;
}

/** Shared between copies of this package in one process, so that one can read what another keeps. */
const rawBodyKey = Symbol.for('express-model-gateway.rawBody');

type Keeping = IncomingMessage & { [rawBodyKey]?: Buffer };

/**
 * Keeps the exact bytes of a body that the host parses before the gateway sees it:
 * `app.use(express.json({ verify: keepRawBody }))`. Without it such a body is serialised again,
 * which loses 64-bit integers and duplicate keys.
 */
export function keepRawBody(req: IncomingMessage, _res: unknown, buf: Buffer): void {
  (req as Keeping)[rawBodyKey] = buf;
}

/** The bytes that {@link keepRawBody} kept. */
function keptBody(req: IncomingMessage): Buffer | undefined {
  return (req as Keeping)[rawBodyKey];
}

/** JSON is UTF-8 (RFC 8259, section 8.1), which includes ASCII. */
const jsonCharsets: ReadonlySet<string> = new Set(['utf-8', 'utf8', 'us-ascii']);

function charsetOf(parameters: readonly string[]): string | undefined {
  for (const parameter of parameters) {
    const charset = /^\s*charset\s*=\s*"?([^"]*?)"?\s*$/i.exec(parameter)?.[1];
    if (charset !== undefined) return charset.toLowerCase();
  }
  return undefined;
}

/**
 * The media type of the body, in lower case and without its parameters.
 * @throws GatewayError `unsupported_media_type` when there is none, when it is none of those the operation takes,
 * and for JSON that is not UTF-8
 */
function bodyMediaType(headers: IncomingHttpHeaders, accepted: ReadonlySet<string>): string {
  const [type = '', ...parameters] = (headers['content-type'] ?? '').split(';');
  const mediaType = type.trim().toLowerCase();
  if (!accepted.has(mediaType)) {
    const expected = [...accepted].join(' or ');
    throw new GatewayError('unsupported_media_type', `The body must be sent with Content-Type: ${expected}`);
  }
  const charset = charsetOf(parameters);
  if (mediaType === 'application/json' && charset !== undefined && !jsonCharsets.has(charset)) {
    throw new GatewayError('unsupported_media_type', 'JSON must be UTF-8; leave out the charset of Content-Type');
  }
  return mediaType;
}
